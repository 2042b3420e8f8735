"""When the lines of a stage-3 schedule run, simulated: computing and messages on two lanes.

Each lane carries out its lines in the order of the schedule, one at a time. A line starts when its
lane is free and what it needs is there: a layer's compute needs the layer whole, a reduce-scatter
needs the gradient, and a gather needs the memory that the lines `Free` above it give back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dtlib.learn.drawing import canvas, timeline
from dtlib.scratch.zero import schedule as s

from .pictures import Table, word

LANES = ("compute", "messages")
KINDS = {
    "Forward": "forward", "Backward": "backward",
    "AllGather": "communication", "ReduceScatter": "communication",
}  # fmt: skip


class Span(NamedTuple):
    """A line, its lane, and from when to when it runs, in seconds."""

    line: s.Instruction
    lane: str
    start: float
    end: float


def layer_seconds(
    parameters: float, tokens: int, ranks: int, link: float, speed: float
) -> dict[str, float]:
    """Seconds of each kind of line for one layer in bf16.

    Parameters
    ----------
    parameters, tokens, ranks
        Parameters of a layer, tokens of a rank's micro-batch, number of ranks.
    link
        Bytes that a rank sends in a second.
    speed
        FLOP/s that a rank reaches.
    """
    message = 2 * parameters * (ranks - 1) / ranks / link
    forward = 2 * parameters * tokens / speed  # 2 FLOP for each parameter and token
    return {
        "AllGather": message, "Forward": forward, "Backward": 2 * forward,
        "ReduceScatter": message,
    }  # fmt: skip


def one_ahead(layers: int) -> list[s.Instruction]:
    """A schedule that gathers each layer while the layer before it computes."""
    lines: list[s.Instruction] = [s.AllGather(0)]
    for k in range(layers):
        lines += [s.AllGather(k + 1)] if k + 1 < layers else []
        lines += [s.Forward(k), s.Free(k)]
    lines += [s.AllGather(layers - 1)]
    for k in reversed(range(layers)):
        lines += [s.AllGather(k - 1)] if k else []
        lines += [s.Backward(k), s.Free(k), s.ReduceScatter(k)]
    return [*lines, s.OptimizerStep()]


def simulate(lines: Sequence[s.Instruction], seconds: Mapping[str, float]) -> list[Span]:
    """When each line runs; `Free` and the optimizer's step take no time here."""
    free = dict.fromkeys(LANES, 0.0)
    gathered: dict[int, float] = {}
    computed: dict[int, float] = {}
    memory, spans = 0.0, []
    for line in lines:
        if isinstance(line, s.OptimizerStep):
            continue
        k = line.block
        if isinstance(line, s.Free):
            memory = max(memory, computed.get(k, 0.0))
            continue
        lane = LANES[isinstance(line, (s.AllGather, s.ReduceScatter))]
        if isinstance(line, s.AllGather):
            ready = memory
        else:
            ready = (computed if isinstance(line, s.ReduceScatter) else gathered)[k]
        start = max(free[lane], ready)
        end = free[lane] = start + seconds[type(line).__name__]
        if isinstance(line, s.AllGather):
            gathered[k] = end
        elif lane == "compute":
            computed[k] = end
        spans.append(Span(line, lane, start, end))
    return spans


def whole_at_most(lines: Sequence[s.Instruction]) -> int:
    """The largest number of layers that a schedule has whole at once."""
    now = most = 0
    for line in lines:
        now += isinstance(line, s.AllGather) - isinstance(line, s.Free)
        most = max(most, now)
    return most


def table(panels: Mapping[str, Sequence[s.Instruction]], seconds: Mapping[str, float]) -> Table:
    """For each schedule the whole layers, and milliseconds of the step and of each lane."""
    rows: list[list[Any]] = []
    for name, lines in panels.items():
        spans = simulate(lines, seconds)
        lanes = [sum(x.end - x.start for x in spans if x.lane == lane) for lane in LANES]
        total = max(span.end for span in spans)
        times = [f"{1000 * x:.0f}" for x in (total, *lanes)]
        rows.append([name, whole_at_most(lines), *times])
    columns = ["", "whole layers, at most", "step, ms", "compute, ms", "messages, ms"]
    return (rows, columns, "Simulated: one micro-batch of four layers at stage 3")


def draw(panels: Mapping[str, Sequence[s.Instruction]], seconds: Mapping[str, float]) -> Any:
    """Two lanes for each schedule, time to the right; dashed, because it is simulated."""
    found = {title: simulate(lines, seconds) for title, lines in panels.items()}
    total = {title: 1000 * max(x.end for x in spans) for title, spans in found.items()}
    said = "; ".join(
        f"{title}, a step of {total[title]:.0f} ms: "
        + ", ".join(f"{short(x.line)} ends at {1000 * x.end:.0f}" for x in spans)
        for title, spans in found.items()
    )
    best, worst = (f(total, key=total.__getitem__) for f in (min, max))
    figure, several = canvas(
        f"{best}, a step takes {total[best]:.0f} ms instead of {total[worst]:.0f} (simulated)",
        f"Simulated: for each schedule a row of computing and a row of messages. {said}.",
        size=(7, 2 * len(panels)), rows=len(panels), squeeze=False, sharex=True,
    )  # fmt: skip
    for axes, (title, spans) in zip(several[:, 0], found.items(), strict=True):
        bars = [
            (LANES.index(lane), 1000 * start, 1000 * end, KINDS[type(line).__name__], short(line))
            for line, lane, start, end in spans
        ]
        timeline(axes, bars, simulated=True, names=LANES)
        axes.set_title(f"{title}: {total[title]:.0f} ms", loc="left")
        axes.set_xlim(0, 1.02 * max(total.values()))
    for axes in several[:-1, 0]:
        axes.set_xlabel("")
    return figure


def short(line: s.Instruction) -> str:
    """A line in a narrow bar: `G2` for AllGather 2."""
    name = word(line)
    return name.replace("AllGather ", "G").replace("ReduceScatter ", "R").replace(
        "Forward ", "F").replace("Backward ", "B")  # fmt: skip
