"""Charts in the course's visual language: they draw on axes that `drawing.canvas` opened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from dtlib.learn.drawing import INK, LINE_HEIGHT, LOOKS, bare, box
from dtlib.learn.figures import SIZE

# Sign, exponent and mantissa are neither weights nor gradients, so they have no colour.
FIELDS = {"sign": "waiting", "exponent": "other", "mantissa": "outline"}


def lines(
    axes: Axes, points: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    simulated: Sequence[str] = (), **options: object,
) -> None:  # fmt: skip
    """Draw lines, each labelled at its end; set scales (`axes.set_xscale`) first.

    Parameters
    ----------
    points
        The x and y values for each label. A label that is in `LOOKS` gets that kind's colour.
    simulated
        Labels of computed lines: these are dashed, and their labels say so. Others are solid.
    **options
        Passed to matplotlib's `plot`.
    """
    ends = []
    for label, (x, y) in points.items():
        style: dict[str, object] = {"linestyle": "--" if label in simulated else "-"}
        if label in LOOKS:
            style["color"] = LOOKS[label].colour
        (line,) = axes.plot(list(x), list(y), label=label, **{**style, **options})  # type: ignore[arg-type]
        words = f"{label} (simulated)" if label in simulated else label
        ends.append((words, (float(x[-1]), float(y[-1])), str(line.get_color())))
    label_ends(axes, ends)


def label_ends(axes: Axes, ends: Sequence[tuple[str, tuple[float, float], str]]) -> None:
    """Write labels (words, point, colour) to the right of points, one above the other.

    Labels have the page's text colour; the short line in front of each has the label's `colour`.
    """
    figure = axes.get_figure(root=True)
    figure.draw_without_rendering()  # type: ignore[union-attr]  # a layout is needed for distances
    step = LINE_HEIGHT * SIZE
    places = [axes.transData.transform(point)[1] * 72 / axes.figure.dpi for _, point, _ in ends]
    low = axes.get_window_extent().y0 * 72 / axes.figure.dpi + step / 2
    order = sorted(range(len(ends)), key=lambda i: places[i])
    for i, wanted in zip(order, apart([places[i] for i in order], step, low), strict=True):
        words, point, colour = ends[i]
        axes.annotate(
            words, point, (14, wanted - places[i]), textcoords="offset points", va="center",
            # dotted, and apart from the line's end, or it looks like the last of the measurements
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 1.5, "ls": ":", "shrinkA": 1,
                        "shrinkB": 4},
            annotation_clip=False,
        )  # fmt: skip


def apart(places: Sequence[float], step: float, low: float = -math.inf) -> list[float]:
    """Move ascending positions as little as needed to be `step` apart, none below `low`."""
    groups: list[list[float]] = []  # [sum of (place - its number * step), count]
    for place in places:
        groups.append([place, 1])
        while len(groups) > 1:
            (a, n), (b, m) = groups[-2:]
            if b / m - a / n >= step * (n + m) / 2:
                break
            groups[-2:] = [[a + b, n + m]]
    free = [
        total / count + (i - (count - 1) / 2) * step
        for total, count in groups
        for i in range(int(count))
    ]
    return [max(place, low + i * step) for i, place in enumerate(free)]


def stacks(
    axes: Axes, parts: Mapping[str, Mapping[str, float]], unit: str,
    limit: tuple[float, str] | None = None, digits: str = ".3g",
) -> None:  # fmt: skip
    """Draw one stacked bar per name: bytes by kind, against a limit.

    Parameters
    ----------
    parts
        Each bar's name and its amount by kind (from `LOOKS`), from the bottom up.
    unit
        Unit of the amounts: "GB".
    limit
        A height and its label: (80, "an 80 GB card").
    """
    tops = []
    for place, amounts in enumerate(parts.values()):
        floor = 0.0
        for kind, amount in amounts.items():
            box(axes, place - 0.35, floor + amount / 2, 0.7, kind, height=amount)
            floor += amount
        axes.annotate(f"{floor:{digits}}", (place, floor), (0, 3), textcoords="offset points",
                      ha="center", va="bottom")  # fmt: skip
        tops.append(floor)
    axes.set_xticks(range(len(parts)), list(parts))
    top = 1.15 * max([*tops, limit[0] if limit else 0])
    axes.set(xlim=(-0.6, len(parts) - 0.4), ylim=(0, top), ylabel=unit)
    ends, floor = [], 0.0
    for kind, amount in list(parts.values())[-1].items():
        ends.append((kind, (len(parts) - 1 + 0.35, floor + amount / 2), LOOKS[kind].colour))
        floor += amount
    if limit:
        axes.axhline(limit[0], color=INK, linewidth=2)
        ends.append((limit[1], (len(parts) - 0.4, limit[0]), INK))
    label_ends(axes, ends)


def bits(axes: Axes, formats: Mapping[str, Sequence[int]], words: bool = True) -> None:
    """Draw number formats to scale: one row per format, one box per bit.

    `formats` gives for each name how many bits its sign, exponent and mantissa take.
    """
    widest = max(map(sum, formats.values()))
    bare(axes, widest + 0.1, len(formats))
    axes.set_yticks(range(len(formats)), list(formats))
    axes.tick_params(axis="y", length=0)
    for row, counts in enumerate(formats.values()):
        place = 0
        for (field, kind), count in zip(FIELDS.items(), counts, strict=True):
            for bit in range(count):
                box(axes, place + bit, row, 1, kind, height=0.45)
            if words and count > 1:
                said = f"{field} {count}" if count > 4 else str(count)
                axes.text(place + count / 2, row - 0.27, said, ha="center", va="bottom")
            place += count


def heat(
    axes: Axes, values: Sequence[Sequence[float]], down: Sequence[object],
    across: Sequence[object], limit: float, digits: str = ".3g",
) -> None:  # fmt: skip
    """Draw what fits: one cell per value, darker when fuller, crossed out when over the limit.

    Parameters
    ----------
    values
        `values[i][j]` belongs to `down[i]` and `across[j]`.
    limit
        The most that fits, in the unit of the values.
    """
    bare(axes, len(across), len(down))
    axes.set_xticks([j + 0.5 for j in range(len(across))], [str(name) for name in across])
    axes.set_yticks(range(len(down)), [str(name) for name in down])
    axes.tick_params(length=0)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            fits = value <= limit
            cell = box(
                axes, j, i, 1, "outline" if fits else "waiting", f"{value:{digits}}", height=1
            )
            if fits:
                cell.set_facecolor((INK, 0.35 * max(0.0, value / limit)))


def waterfall(
    axes: Axes, first: tuple[str, float], causes: Sequence[tuple[str, float]], last: str,
    unit: str, factors: bool = False,
) -> None:  # fmt: skip
    """Draw how one number becomes another, cause by cause, from the top down.

    Parameters
    ----------
    first
        Label and value of the start.
    causes
        Labels, and what each adds or, with `factors`, multiplies by (the x axis is then log).
    last
        Label of the end, whose value is computed.
    """
    value, edges = first[1], []
    for _, change in causes:
        after = value * change if factors else value + change
        edges.append((min(value, after), max(value, after)))
        value = after
    names = [first[0], *(name for name, _ in causes), last]
    bars = [(0.0, first[1]), *edges, (0.0, value)]
    sign = "×{:.3g}" if factors else "{:+.3g}"
    said = [f"{first[1]:.3g}", *(sign.format(x) for _, x in causes), f"{value:.3g}"]
    lowest = min(end for _, end in bars) / 2 if factors else 0.0
    for row, ((start, end), text) in enumerate(zip(bars, said, strict=True)):
        kind = "other" if row in (0, len(bars) - 1) else "outline"
        start = max(start, lowest)
        box(axes, start, row, end - start, kind)
        axes.annotate(text, (end, row), (5, 0), textcoords="offset points", va="center")
    if factors:
        axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    right = max(end for _, end in bars) * (1.3 if factors else 1.12)
    axes.set(xlim=(lowest, right), ylim=(len(names) - 0.5, -0.5), xlabel=unit)
