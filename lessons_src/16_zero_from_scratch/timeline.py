"""When the lines of a stage-3 schedule run, simulated: computing and messages on two lanes.

Each lane carries out its lines in the order of the schedule, one at a time. A line starts when its
lane is free and what it needs is there: a layer's compute needs the layer whole, a reduce-scatter
needs the gradient, and a gather needs the memory that the lines `Free` above it give back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dtlib.scratch.zero import schedule as s

from .pictures import Table, word

LANES = ("compute", "messages")
COLORS = {"Forward": "C0", "Backward": "C2", "AllGather": "C1", "ReduceScatter": "C3"}


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
    import matplotlib.pyplot as plt

    figure, several = plt.subplots(
        len(panels), 1, figsize=(8, 1.9 * len(panels)), layout="constrained", sharex=True,
        squeeze=False,
    )  # fmt: skip
    for axes, (title, lines) in zip(several[:, 0], panels.items(), strict=True):
        spans = simulate(lines, seconds)
        for line, lane, start, end in spans:
            place, width = LANES.index(lane), 1000 * (end - start)
            options = {"color": COLORS[type(line).__name__], "alpha": 0.75}
            edge = {"edgecolor": "0.3", "linestyle": "--", "linewidth": 0.8}
            axes.barh(place, width, 0.8, 1000 * start, **options, **edge)
            axes.text(1000 * (start + end) / 2, place, short(line), ha="center", va="center")
        axes.set_yticks(range(len(LANES)), LANES)
        axes.invert_yaxis()
        total = 1000 * max(span.end for span in spans)
        axes.set_title(f"{title}: {total:.0f} ms (simulated)", loc="left")
    several[-1][0].set_xlabel("ms")
    return figure


def short(line: s.Instruction) -> str:
    """A line in a narrow bar: `G2` for AllGather 2."""
    name = word(line)
    return name.replace("AllGather ", "G").replace("ReduceScatter ", "R").replace(
        "Forward ", "F").replace("Backward ", "B")  # fmt: skip
