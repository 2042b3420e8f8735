"""The pictures and tables of lesson 12: a row for each rank, time to the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.drawing import canvas, key, timeline
from dtlib.scratch import pipeline as p
from dtlib.sim import pipeline as formulas

from .pipeline_runs import Books, seconds

Table = tuple[list[list[Any]], list[str], str]
KINDS = {
    "Forward": "forward", "Backward": "backward", "BackwardInput": "backward",
    "BackwardWeight": "weights",
}  # fmt: skip
SHORT = {"Forward": "F", "Backward": "B", "BackwardInput": "I", "BackwardWeight": "W"}
WORDS = {"forward": "forward", "backward": "backward", "weights": "weight gradient"}


def computations(spans: Sequence[p.Span]) -> list[p.Span]:
    """The spans that are no messages."""
    return [span for span in spans if type(span.line).__name__ in KINDS]


def order(lines: Sequence[Any]) -> str:
    """A list in short words: F0 F1 B0."""
    return " ".join(f"{SHORT[type(line).__name__]}{line.micro_batch}" for line in lines)


def draw_question(n: int = 4) -> Any:
    """One batch, as long as eight micro-batches: one rank computes, the others wait."""
    one: list[list[Any]] = [[p.Forward(0, rank), p.Backward(0, rank)] for rank in range(n)]
    spans = p.follow(p.with_messages(one), {"Forward": 8, "Backward": 16})
    title = f"One batch, {n} stages: one rank computes, and {n - 1} wait"
    return _draw(title, {"": spans}, simulated=True, unit="units")


def draw_schedules(panels: Mapping[str, Sequence[p.Span]]) -> Any:
    """Schedules as read off, one below the other, on one axis."""
    return _draw(_idle(panels), panels, simulated=True, unit="units")


def draw_measured(found: Mapping[str, Books]) -> Any:
    """When each computation really ran."""
    panels = {name: books.spans for name, books in found.items()}
    return _draw(f"{_idle(panels)}, measured", panels, simulated=False, unit="s")


def _idle(panels: Mapping[str, Sequence[p.Span]]) -> str:
    """A sentence with the bubbles of some schedules."""
    (first, share), *others = ((name, p.idle_share(spans)) for name, spans in panels.items())
    said = [f"{first} is idle for {share:.3g} of its computing time"]
    return ", ".join([*said, *(f"{name} for {other:.3g}" for name, other in others)])


def _draw(title: str, panels: Mapping[str, Sequence[p.Span]], simulated: bool, unit: str) -> Any:
    several = {name: computations(spans) for name, spans in panels.items()}
    numbered = any(s.line.micro_batch > 0 for spans in several.values() for s in spans)
    count = 1 + max(span.rank for spans in several.values() for span in spans)
    last = max(span.end for spans in several.values() for span in spans)
    figure, rows = canvas(
        title, _alt(several, unit, simulated), size=(7, len(panels) * (0.9 + 0.42 * count) + 0.5),
        rows=len(panels), squeeze=False,
    )  # fmt: skip
    for axes, (name, spans) in zip(rows[:, 0], several.items(), strict=True):
        bars = [
            (s.rank, s.start, s.end, KINDS[type(s.line).__name__],
             _label(s, last) if numbered else "") for s in spans
        ]  # fmt: skip
        timeline(axes, bars, simulated=simulated, unit=unit)
        axes.set_title(name if len(panels) > 1 else "", loc="left")  # the figure's title has it
        axes.set_xlim(0, 1.02 * last)
        for text in axes.texts:
            text.set_fontsize(9)
    for axes in rows[:-1, 0]:
        axes.set_xlabel("")
    kinds = [KINDS[type(span.line).__name__] for spans in several.values() for span in spans]
    halves = any(isinstance(s.line, p.BackwardInput) for spans in several.values() for s in spans)
    told = WORDS | ({"backward": "backward, or the input gradient alone"} if halves else {})
    key(figure, [kind for kind in WORDS if kind in kinds], told)
    return figure


def _label(span: p.Span, last: float) -> str:
    """The micro-batch, where the bar is wide enough for it."""
    return str(span.line.micro_batch) if (span.end - span.start) / last > 0.012 else ""


def _alt(several: Mapping[str, Sequence[p.Span]], unit: str, simulated: bool) -> str:
    """Everything that a timeline shows, in words."""
    said = ["Simulated." if simulated else "Measured.", "F0 is the forward of micro-batch 0."]
    for name, spans in several.items():
        for rank in range(1 + max(span.rank for span in spans)):
            own = sorted((s for s in spans if s.rank == rank), key=lambda span: span.start)
            said.append(
                f"{name} rank {rank}: {order([span.line for span in own])}, from "
                f"{own[0].start:.3g} to {own[-1].end:.3g} {unit}.".strip()
            )
    return " ".join(said)


def idle_and_kept(ways: Mapping[str, Sequence[Any]]) -> Table:
    """Step time, bubble and kept micro-batches of schedules, as read off."""
    rows = []
    for name, lists in ways.items():
        spans = p.follow(p.with_messages(lists))
        kept = " ".join(str(p.kept_at_most(lines)) for lines in lists)
        step = max(span.end for span in spans)
        rows.append([name, f"{step:g}", f"{p.idle_share(spans):.4g}", kept])
    columns = ["", "step, units", "idle ÷ computing", "micro-batches kept, by rank"]
    kinds = {type(line) for lists in ways.values() for lines in lists for line in lines}
    halves = ", each half of a split backward 1" if p.BackwardInput in kinds else ""
    whole = ", a backward 2" if p.Backward in kinds else ""
    return (rows, columns, f"Read off the lists: a forward takes 1 unit{whole}{halves}")


def with_slow_messages(ways: Mapping[str, Sequence[Any]]) -> Table:
    """Step time of schedules whose messages take longer and longer, as read off."""
    rows = []
    for units in (0, 0.1, 0.5, 1):
        read = [p.follow(p.with_messages(lists), message=units) for lists in ways.values()]
        rows.append([f"{units:g}", *(f"{max(s.end for s in spans):g}" for spans in read)])
    columns = ["a message takes", *(f"step of {name}" for name in ways)]
    return (rows, columns, "Read off the lists, all in units of time; a forward takes 1 unit")


def proof(found: Mapping[str, Books]) -> Table:
    """Distance from the twin, and what was sent and kept on real ranks."""
    rows = [
        [name, *(f"{far:.1e}" for far in books.far.values()), books.messages, books.bytes,
         " ".join(map(str, books.kept))]
        for name, books in found.items()
    ]  # fmt: skip
    columns = ["", "SGD", "AdamW", "messages", "bytes", "kept, by rank"]
    caption = (
        "SGD and AdamW: the largest distance of a weight from the twin's; messages and bytes: the "
        "most that a rank sends in a step; kept: micro-batches"
    )
    return (rows, columns, caption)


def read_and_measured(
    ways: Mapping[str, Sequence[Any]], found: Mapping[str, Books], sleep: float
) -> Table:
    """Step time and bubble, on paper and on real ranks."""
    rows = []
    for name, lists in ways.items():
        paper, real = p.follow(p.with_messages(lists), seconds(sleep)), found[name].spans
        ends = [max(span.end for span in spans) for spans in (paper, real)]
        shares = [p.idle_share(spans) for spans in (paper, real)]
        rows.append([name, *(f"{x:.3f}" for x in ends), *(f"{x:.3g}" for x in shares)])
    columns = ["", "step on paper, s", "measured, s", "idle ÷ computing on paper", "measured"]
    return (rows, columns, "On paper and on real ranks whose stages sleep")


def interleaved(ranks: int, micro_batches: int) -> Table:
    """Bubble, messages and kept activations for more and more stages on each rank, computed."""
    many = ranks * -(-micro_batches // ranks)
    rows = []
    for chunks in (1, 2, 4):
        name = "1f1b" if chunks == 1 else "interleaved"
        sent = max(formulas.messages(rank, ranks, many, chunks) for rank in range(ranks))
        kept = formulas.kept_activations(name, 0, ranks, many, chunks)
        idle = formulas.bubble(name, ranks, many, chunks=chunks)
        rows.append([chunks, f"{idle:.3g}", sent, f"{kept:g}"])
    columns = ["stages on a rank", "idle ÷ computing", "messages of a rank", "kept by rank 0"]
    return (rows, columns, f"Computed for N = {ranks}, M = {many}; kept in micro-batches")
