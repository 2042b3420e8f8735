"""Lesson 20's pictures: its question, steps as they were recorded, their shares, the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtlib.learn.charts import label_ends
from dtlib.learn.drawing import INK, PAPER, bare, box, canvas, key, timeline
from dtlib.measure.profiling.intervals import Intervals, length, without
from dtlib.measure.profiling.shares import Shares
from dtlib.measure.profiling.traces import Step

from .own_trace import RANGES, shortest_step

# What a step's time goes to, and its look on a timeline.
KINDS = {"input": "waiting", "compute": "other", "communication": "communication"}
WORDS = {"waiting": "input", "other": "compute", "outline": "idle"}
# A sketch of four steps of ten units each: (kind, length).
SKETCH = {
    "run A": [("waiting", 5.2), ("forward", 1.2), ("backward", 2.4), ("communication", 0.7),
              ("update", 0.5)],
    "run B": [("waiting", 0.3), ("forward", 1.2), ("backward", 2.4), ("communication", 5.6),
              ("update", 0.5)],
    "run C": [("waiting", 0.3), ("forward", 2.7), ("backward", 5.6), ("communication", 0.7),
              ("update", 0.7)],
    "run D": [("waiting", 0.3), *[("forward", 0.3), ("outline", 0.5)] * 3,
              *[("backward", 0.4), ("outline", 0.5)] * 6, ("communication", 0.7),
              ("outline", 0.7), ("update", 0.5)],
}  # fmt: skip


def draw_question() -> Any:
    """Four steps that a stopwatch cannot tell apart."""
    figure, axes = canvas(
        "Four steps take equally long. Where does the time go in yours?",
        "A sketch of one step in each of four runs, all equally long. Run A spends half of it "
        "waiting for a batch, run B more than half of it communicating, run C most of it in "
        "forward and backward. Run D has many short operations, and between them gaps in which "
        "nothing runs.",
        size=(7, 3),
    )
    bare(axes, 10.05, len(SKETCH))
    axes.set_yticks(range(len(SKETCH)), list(SKETCH))
    axes.tick_params(axis="y", length=0)
    for row, parts in enumerate(SKETCH.values()):
        at = 0.0
        for kind, width in parts:
            box(axes, at, row, width, kind)
            at += width
    axes.set_xlabel("one step (a sketch, not a measurement)")
    key(figure, ["waiting", "forward", "backward", "communication", "update", "outline"],
        {"waiting": "waits for a batch", "outline": "nothing"})  # fmt: skip
    return figure


def draw_step(path: str | Path) -> Any:
    """A step of one's own script: its ranges, its operators, the longest of each range."""
    parts = shortest_step(path)
    ms = max(part.end for part in parts.values()) * 1e3
    shares = {name: (part.end - part.begin) * 1e5 / ms for name, part in parts.items()}
    longest = max(shares, key=lambda name: shares[name])
    names = {name: part.longest() for name, part in parts.items()}
    said = "; ".join(
        f"{name} takes {(part.end - part.begin) * 1e3:.2g} ms, of which {names[name][0]} takes "
        f"{names[name][1] * 1e3:.2g}"
        for name, part in parts.items()
    )
    figure, axes = canvas(
        f"Of {ms:.3g} ms, {longest} takes {shares[longest]:.0f} %",
        f"A recorded step: its ranges in the upper row, its operators in the lower one. {said}.",
        size=(7, 3),
    )
    bars: list[Any] = []
    for name, part in parts.items():
        bars.append((0, part.begin * 1e3, part.end * 1e3, name))
        bars += [(1, b * 1e3, e * 1e3, name) for b, e in _joined(part.operators, ms / 1e3)]
    timeline(axes, bars, names=["ranges", "operators"])
    axes.set_ylim(2.5, -0.5)
    for name, part in parts.items():
        middle = (part.begin + part.end) * 500
        operator, seconds = names[name]
        share = f"{seconds / (part.end - part.begin):.0%}".replace("%", " %")
        axes.annotate(
            f"{operator.removeprefix('aten::')}\n{share}", (middle, 1.35), (middle, 1.6),
            ha="center", va="top", arrowprops={"arrowstyle": "-", "color": INK},
        )  # fmt: skip
    key(figure, RANGES)
    return figure


def _joined(spans: Intervals, whole: float) -> Intervals:
    """Spans without the gaps that are too short to be seen."""
    joined: Intervals = []
    for begin, end in spans:
        if joined and begin - joined[-1][1] < whole / 400:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return joined


def draw_gaps(paths: Mapping[str, str | Path]) -> Any:
    """The forward passes of scripts, each as wide as the picture: operators and gaps."""
    parts = {name: shortest_step(path)["forward"] for name, path in paths.items()}
    whole = {name: part.end - part.begin for name, part in parts.items()}
    each = "; ".join(
        f"at {name}, {100 * part.gaps / whole[name]:.0f} %"
        + " of forward has no operator" * (k == 0)
        for k, (name, part) in enumerate(parts.items())
    )
    lasts = {name: f"{seconds * 1e6:.0f} µs" for name, seconds in whole.items()}
    figure, axes = canvas(
        each.capitalize(),
        "A recorded forward pass in each row, all drawn equally long, with white where no operator "
        f"runs: {', '.join(f'{name} takes {last}' for name, last in lasts.items())}.",
        size=(7, 2.2),
    )
    bars: list[Any] = []
    for row, (name, part) in enumerate(parts.items()):
        share = [((b - part.begin) / whole[name], (e - part.begin) / whole[name])
                 for b, e in part.operators]  # fmt: skip
        bars += [(row, 100 * b, 100 * e, "forward") for b, e in _joined(share, 1)]
    timeline(axes, bars, names=[f"{name}\n{last}" for name, last in lasts.items()])
    axes.set(xlim=(0, 100.5), xlabel="time, % of each forward pass")
    return figure


def draw_ranks(steps: Sequence[Step]) -> Any:
    """The same step on every rank: when it waits for input, computes, communicates."""
    zero = min(step.begin for step in steps)
    whole = max(step.end for step in steps) - zero
    spent = [length(step.communication) * 1e3 for step in steps]
    pairs = zip(steps, spent, strict=True)
    each = ", ".join(f"{ms:.0f} ms on rank {step.rank}" for step, ms in pairs)
    figure, axes = canvas(
        f"The same all-reduce takes {each}",
        "One recorded step, a row for each rank. "
        + " ".join(
            f"Rank {step.rank}: input {length(step.input) * 1e3:.0f} ms, computation "
            f"{length(step.compute) * 1e3:.0f} ms, communication {ms:.0f} ms."
            for step, ms in zip(steps, spent, strict=True)
        ),
        size=(7, 2.5),
    )
    bars: list[Any] = []
    for step in steps:
        alone = {
            "input": step.input,
            "compute": without(step.compute, step.input),
            "communication": without(without(step.communication, step.input), step.compute),
        }
        bars += [
            (step.rank, (b - zero) * 1e3, (e - zero) * 1e3, KINDS[kind])
            for kind, spans in alone.items()
            for b, e in _joined(spans, whole)
        ]
    timeline(axes, bars)
    key(figure, list(KINDS.values()), WORDS)
    return figure


def draw_shares(found: Mapping[str, Sequence[Shares]]) -> Any:
    """The shares of every rank of every run, as bars of 100 %."""
    rows = [(f"{name}, rank {one.rank}", one) for name, ranks in found.items() for one in ranks]
    parts = {**KINDS, "idle": "outline"}
    said = "; ".join(
        f"{name}: " + ", ".join(f"{part} {100 * getattr(one, part):.0f} %" for part in parts)
        for name, one in rows
    )
    figure, axes = canvas(
        "All time counts once: every bar ends at 100 %",
        f"A bar of 100 % for each rank of each run. {said}.",
        size=(7, 0.9 + 0.36 * len(rows)),
    )
    bare(axes, 100.5, len(rows))
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.tick_params(axis="y", length=0)
    for row, (_, one) in enumerate(rows):
        at = 0.0
        for part, kind in parts.items():
            share = 100 * getattr(one, part)
            box(axes, at, row, share, kind, f"{share:.0f}" if share >= 8 else "")
            at += share
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("% of a step")
    key(figure, list(parts.values()), WORDS)
    return figure


def draw_roofline(
    measured: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    roofs: Mapping[str, tuple[float, float]],
    where: str,
) -> Any:
    """What operators reach by their arithmetic intensity, under what machines can do at most.

    Parameters
    ----------
    measured
        For each label its FLOP per byte and its FLOP/s: solid, with markers.
    roofs
        For each label a peak in FLOP/s and a bandwidth in bytes per second: dashed.
    where
        What was measured, such as "one core here".
    """
    low, high = 0.2, 2000.0
    balances = {label: peak / bandwidth for label, (peak, bandwidth) in roofs.items()}
    said = [f"{label} has its balance at {x:.0f} FLOP per byte" for label, x in balances.items()]
    for label, (x, y) in measured.items():
        best, at = max(zip(y, x, strict=True))
        said.append(f"{label} reaches {best / 1e9:.3g} GFLOP/s at {at:.3g} FLOP per byte")
    figure, axes = canvas(
        "Where a roof rises memory is the limit, where it is flat arithmetic",
        "FLOP/s over arithmetic intensity, both axes logarithmic; solid with markers: measured on "
        f"{where}; dashed: roofs from data sheets. {'; '.join(said)}.",
        size=(7, 4.4),
    )
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylabel="GFLOP/s",
             xlabel=f"FLOP per byte\ndashed: computed; markers: measured on {where}")  # fmt: skip
    ends = []
    for label, (peak, bandwidth) in roofs.items():
        bend = [low, balances[label], high]
        roof = [min(peak, bandwidth * at) / 1e9 for at in bend]
        axes.plot(bend, roof, "--", color=INK)
        ends.append((label, (high, roof[-1]), INK))
    floor = min(min(y) for _, y in measured.values()) / 1e9
    for number, (label, (x, y)) in enumerate(measured.items()):
        reached, colour = [value / 1e9 for value in y], f"C{number}"
        axes.plot(x, reached, "-o", color=colour, markersize=5)
        if len(x) > 1:
            ends.append((label, (x[-1], reached[-1]), colour))
            continue
        floor /= 4  # a single point's label is below all curves, and hides none
        line = {"arrowstyle": "-", "color": colour, "ls": ":", "relpos": (0, 0.5)}
        axes.annotate(label, (x[0], reached[0]), (x[0], floor), va="center", arrowprops=line)
    axes.set_ylim(bottom=floor / 2)
    label_ends(axes, ends)
    for label in axes.texts:
        label.set_bbox({"facecolor": PAPER, "edgecolor": "none", "pad": 1})
    return figure
