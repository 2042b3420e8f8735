"""Figures for paper and slides as SVG, from the rows of the student's tables."""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dtlib.study import scaling
from dtlib.study.capstone.evidence import SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colour-blind-safe blue for what was measured; the ideal is grey and dashed.
BLUE, GREY = "#0072B2", "#595959"
BARS = {
    "compute": ("#BFBFBF", ""), "communication": ("#cd1242", "|||"), "input": ("#FFFFFF", "xxx"),
    "idle": ("#FFFFFF", ""),
}  # fmt: skip
Rows = Sequence[Mapping[str, Any]]


def curve(kind: str, rows: Rows, size: tuple[float, float] = (6.7, 2.25), font: float = 9) -> str:
    """Draw step time and efficiency over ranks: each repeat, the medians, and the whole spread."""
    each = scaling.paired(rows)
    times: dict[int, list[float]] = {n: [] for n in each}
    for row in rows:
        if row["world_size"] in times:
            times[row["world_size"]].append(1e3 * row["step_time_s"])
    alone = statistics.median(times[1])
    ideal = [alone / (n if kind == "strong" else 1) for n in each]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        _measured(left, times, ideal, font)
        left.set(ylabel="time of a step, ms")
        _measured(right, each, [1.0] * len(each), font)
        right.set(ylabel="efficiency")

    return _svg(draw, size, font)


def efficiencies(studies: Mapping[str, Rows], size: tuple[float, float], font: float) -> str:
    """Draw the efficiency of each kind of scaling in a panel of its own."""
    kinds = [kind for kind in scaling.KINDS if studies.get(kind)]

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
        for axes, kind in zip(panels, kinds, strict=True):
            each = scaling.paired(studies[kind])
            _measured(axes, each, [1.0] * len(each), font)
            axes.set_title(f"{kind} scaling", loc="left")
        panels[0].set_ylabel("efficiency")

    return _svg(draw, size, font)


def step_shares(shares: Rows, size: tuple[float, float] = (6.7, 1.5), font: float = 9) -> str:
    """Draw where the time of a step goes: a bar for each study, of its middle repeat."""
    kinds = list(dict.fromkeys(row["study"] for row in shares))

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for place, kind in enumerate(kinds):
            start = 0.0
            for name, value in middle_repeat(shares, kind).items():
                colour, hatch = BARS[name]
                axes.barh(
                    place, 100 * value, left=start, color=colour, hatch=hatch, edgecolor="black",
                    linewidth=0.7, height=0.6, label=name if place == 0 else None,
                )  # fmt: skip
                start += 100 * value
        axes.set_yticks(range(len(kinds)), [f"{kind} scaling" for kind in kinds])
        axes.set(ylim=(len(kinds) - 0.5, -0.5), xlim=(0, 100), xlabel="% of a step")
        figure.legend(loc="outside upper left", ncols=len(SHARES))

    return _svg(draw, size, font)


def middle_repeat(shares: Rows, kind: str) -> dict[str, float]:
    """Return `SHARES` of the repeat whose communication is the median; they add up to 1."""
    runs = sorted((r for r in shares if r["study"] == kind), key=lambda r: r["communication"])
    return {name: runs[(len(runs) - 1) // 2][name] for name in SHARES}


def _measured(
    axes: Axes, values: Mapping[int, Sequence[float]], ideal: Sequence[float], font: float
) -> None:
    """Draw every repeat as a dot, medians as a line, the spread as bars, the ideal dashed.

    Twice the ranks are always as far away, so that 1, 2, 4 and 64 have room for their labels.
    """
    ranks = [math.log2(n) for n in values]
    middle = [statistics.median(each) for each in values.values()]
    ends = [[m - min(v) for m, v in zip(middle, values.values(), strict=True)],
            [max(v) - m for m, v in zip(middle, values.values(), strict=True)]]  # fmt: skip
    axes.plot(ranks, ideal, "--", color=GREY)
    axes.errorbar(ranks, middle, ends, fmt="s-", color=BLUE, capsize=5, markersize=5)
    low, high = ranks[0], ranks[-1]
    for place, each in zip(ranks, values.values(), strict=True):
        beside = place - 0.05 * (high - low)  # of the bar, which would hide them
        axes.plot([beside] * len(each), each, "o", color="black", markersize=font / 4)
    top = 1.12 * max([*ideal, *(max(each) for each in values.values())])
    axes.set(xlabel="ranks", ylim=(0, top))
    axes.set_xticks(ranks, [str(n) for n in values])
    axes.set_xlim(low - 0.12 * (high - low), high + 0.32 * (high - low))
    apart = abs(ideal[-1] - middle[-1]) > 0.12 * top
    up = ideal[-1] >= middle[-1]
    for words, y, side in (("ideal", ideal[-1], up), ("median", middle[-1], not up)):
        shift = 0 if apart else 7 if side else -7
        axes.annotate(words, (high, y), (9, shift), textcoords="offset points", va="center",
                      color=GREY if words == "ideal" else BLUE)  # fmt: skip


def _svg(draw: Any, size: tuple[float, float], font: float) -> str:
    """Draw on an empty figure, whatever style the process has, and return the same text always."""
    from matplotlib import rc_context, style
    from matplotlib.figure import Figure

    look: Any = {
        "svg.fonttype": "path", "svg.hashsalt": "dtlib", "font.size": font, "hatch.linewidth": 0.6,
        "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
        "axes.titlesize": font,
    }  # fmt: skip
    with style.context("default", after_reset=True), rc_context(look):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
