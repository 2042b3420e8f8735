"""Line charts over steps or seconds as SVG in the page, with a description and the numbers."""

from __future__ import annotations

import base64
import io
import math
import statistics
from collections.abc import Mapping, Sequence

from dtlib.study.report.content import Figure, Table

MOST_POINTS, MOST_ROWS = 800, 12
# Okabe and Ito's colour-blind-safe palette, and dashes for readers who see no colours
LOOKS = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", ":"), ("#CC79A7", "-."))
Line = Sequence[tuple[float, float]]


def lines(
    caption: str, across: str, up: str, series: Mapping[str, Line], *, from_zero: bool = True
) -> Figure:
    """Draw named lines of at least one point; of many points, every k-th is drawn.

    `across` and `up` are the axis labels, with units.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    thin = {name: thinned(points, MOST_POINTS) for name, points in series.items()}
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "dtlib"}):
        canvas = Canvas(figsize=(7.5, 2.8), layout="constrained")
        axes = canvas.subplots()
        for number, (name, points) in enumerate(thin.items()):
            colour, dash = LOOKS[number % len(LOOKS)]
            mark = "o" if len(points) == 1 else ""
            axes.plot(*zip(*points, strict=True), dash, color=colour, marker=mark, label=name)
        axes.set(xlabel=across, ylabel=up)
        if from_zero:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if len(thin) > 1:
            axes.legend()
        file = io.BytesIO()
        canvas.savefig(file, format="svg", metadata={"Date": None})
    image = "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    return Figure(caption, image, words(caption, up, series), numbers(across, up, series))


def thinned(points: Line, most: int) -> list[tuple[float, float]]:
    """Return at most `most` points: every k-th, and the last one."""
    every = -(-len(points) // most)
    kept = list(points[::every])
    if kept[-1] != points[-1]:
        kept[-1:] = [points[-1]] if len(kept) == most else [kept[-1], points[-1]]
    return kept


def words(caption: str, up: str, series: Mapping[str, Line]) -> str:
    """Describe a figure in words, for readers who can't see it."""
    parts = []
    for name, points in series.items():
        values = [y for _, y in points]
        said = f"{name}: {len(values)} points, first {values[0]:.4g}, last {values[-1]:.4g}"
        finite = [y for y in values if math.isfinite(y)]  # nan can't be ordered
        if len(finite) < len(values):
            said += f", {len(values) - len(finite)} of them not finite"
        if finite:
            said += (
                f", smallest {min(finite):.4g}, median {statistics.median(finite):.4g},"
                f" largest {max(finite):.4g}"
            )
        parts.append(said)
    return f"{caption} ({up}). {'; '.join(parts)}."


def numbers(across: str, up: str, series: Mapping[str, Line]) -> Table:
    """Return a few evenly spaced points of each line."""
    rows = [
        (name, f"{x:.6g}", f"{y:.6g}")
        for name, points in series.items()
        for x, y in thinned(points, MOST_ROWS)
    ]
    return Table(f"{up} over {across}, {len(rows)} points", ("line", across, up), rows)
