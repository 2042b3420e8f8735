"""Readable results of a sensitivity study: a table, a heat map, bars for before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.errors import counted
from dtlib.measure.columns import aligned
from dtlib.study import reading, sensitivity
from dtlib.study.sensitivity import FIRST, LOSS, NOISE, SINGLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
BARS = "before_after.png"


def table(rows: Sequence[Row], judged: Sequence[str] = ()) -> str:
    """Return throughputs and gains of `sensitivity.best` as text, with their spread over repeats.

    The sentences about targets, `judged`, follow below the table.
    """
    axes = sensitivity.varying(rows)
    lines = [[*axes, rows[0]["throughput_unit"] or "", "ms/step", "gain", "from", "to", "it is"]]
    lines += [_line(row, axes) for row in rows]
    count, ranks = max(row["repeats"] for row in rows), rows[0]["world_size"]
    found = [
        f"Medians of {counted(count, 'repeat')} on {counted(ranks, 'rank')}; gains"
        " in throughput are against the first setting in the same turn.",
        aligned(lines, left=0),
        *notes(rows, count),
        *judged,
    ]
    return "\n".join(found)


def _line(row: Row, axes: Sequence[str]) -> list[str]:
    shares = (row["gain"], row["gain_min"], row["gain_max"])
    return [
        *(_value(row[axis]) for axis in axes),
        f"{row['throughput']:,.1f}",
        f"{1e3 * row['step_time_s']:.1f}",
        *("" if share is None else f"{share:+.1%}" for share in shares),
        row["verdict"],
    ]


def notes(rows: Sequence[Row], count: int) -> list[str]:
    """Say what the table can't show: the role of chance, and changes of the experiment."""
    found = []
    if count < 2:
        found.append("One repeat shows no spread: with --repeats 3 you see how much is noise.")
    else:
        found.append(
            "Noise: the median ratio to the first setting is no larger than the largest over the"
            f" smallest. Luck favours the best of {len(rows)} settings: run it and the first again."
        )
    if len({row["global_batch"] for row in rows}) > 1:
        found.append(
            "A different global batch is a different experiment: throughputs can be compared,"
            " losses after the same number of steps can't."
        )
    return found


def heat_map(rows: Sequence[Row]) -> Figure:
    """Draw throughput over the two axes with most values; a cell shows the best over the others."""
    from matplotlib.figure import Figure

    down, across = chosen(rows)
    cells = grid(rows, down, across)
    sides = [_values(rows, axis) for axis in (down, across)]
    size = (2.5 + 1.4 * len(sides[1]), 1.6 + 0.7 * len(sides[0]))
    drawn = Figure(figsize=size, layout="constrained")
    axes = drawn.add_subplot()
    shown = [[row["throughput"] if row else float("nan") for row in line] for line in cells]
    image = axes.imshow(shown, cmap="cividis", aspect="auto")
    low, high = image.get_clim()
    for y, line in enumerate(cells):
        for x, row in enumerate(line):
            dark = row is not None and row["throughput"] < (low + high) / 2
            axes.text(x, y, _cell(row), ha="center", va="center", color="w" if dark else "k")
    axes.set_xticks(range(len(sides[1])), [_value(value) for value in sides[1]])
    axes.set_yticks(range(len(sides[0])), [_value(value) for value in sides[0]])
    axes.set(xlabel=across, ylabel=down if len(sides[0]) > 1 else "")
    drawn.colorbar(image, label=rows[0]["throughput_unit"] or "throughput")
    return drawn


def chosen(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the axes of a heat map, down and across: the two with the most values."""
    most = sorted(sensitivity.varying(rows), key=lambda axis: -len(_values(rows, axis)))
    across = most[0]
    still = [axis for axis in sensitivity.AXES if axis != across]
    return (most[1] if len(most) > 1 else still[0]), across


def grid(rows: Sequence[Row], down: str, across: str) -> list[list[Row | None]]:
    """Return the cells of a heat map: each has the setting with the largest gain, or None."""
    return [
        [
            next((row for row in rows if (row[down], row[across]) == (one, two)), None)
            for two in _values(rows, across)
        ]
        for one in _values(rows, down)
    ]


def _cell(row: Row | None) -> str:
    if row is None:
        return "not run"
    gain = FIRST if row["verdict"] == FIRST else _percent(row)
    return f"{row['throughput']:,.1f}\n{gain}"


def _percent(row: Row) -> str:
    if row["gain"] is None:
        return "no pair"
    word = f" ({row['verdict']})" if row["verdict"] in (NOISE, SINGLE) else ""
    return f"{row['gain']:+.1%}{word}"


def bars(rows: Sequence[Row], runs: Sequence[Row]) -> Figure:
    """Draw the throughput of the first and of the best setting, with a dot for each repeat.

    `rows` are those of `sensitivity.best`, `runs` the runs themselves.
    """
    from matplotlib.figure import Figure

    before, after = ends(rows)
    axes_of, found = sensitivity.varying(rows), sensitivity.by_setting(runs)
    drawn = Figure(figsize=(6, 3.6), layout="constrained")
    axes = drawn.add_subplot()
    for x, (row, colour) in enumerate(((before, "#BBBBBB"), (after, "#0072B2"))):
        name = sensitivity.setting_name(row, axes_of)
        axes.bar(x, row["throughput"], 0.5, color=colour, edgecolor="k", hatch="" if x else "//")
        dots = [run["throughput"] for run in found[name]]
        axes.plot([x] * len(dots), dots, "o", color="#D55E00", label="" if x else "each repeat")
    names = [sensitivity.setting_name(row, axes_of) for row in (before, after)]
    axes.set_xticks([0, 1], [f"before\n{names[0]}", f"after\n{names[1]}"])
    axes.set(ylabel=rows[0]["throughput_unit"] or "throughput", title=gained(rows))
    axes.legend(loc="upper left")
    return drawn


def ends(rows: Sequence[Row]) -> tuple[Row, Row]:
    """Return the first setting, and the best of the others."""
    before = next(row for row in rows if row["verdict"] == FIRST)
    return before, next(row for row in rows if row["verdict"] != FIRST)


def gained(rows: Sequence[Row]) -> str:
    """Say what the best setting gained over the first, with its spread."""
    _, after = ends(rows)
    if after["gain"] is None:
        return "the best setting has no repeat in common with the first"
    spread = f"{after['gain_min']:+.1%} to {after['gain_max']:+.1%}"
    word = {NOISE: ", which is noise", LOSS: ": the first setting is the fastest"}
    return f"{after['gain']:+.1%} ({spread}){word.get(after['verdict'], '')}"


def save(rows: Sequence[Row], runs: Sequence[Row], path: Path, judged: Sequence[str] = ()) -> str:
    """Write both figures, with their numbers in words inside, and the table; return the table."""
    down, across = chosen(rows)
    words = "; ".join(
        f"{down} {_value(row[down])}, {across} {_value(row[across])}: {_cell(row)}".replace(
            "\n", " "
        )
        for line in grid(rows, down, across)
        for row in line
        if row is not None
    )
    text = table(rows, judged)
    reading.save(heat_map(rows), path, words, text)
    before, after = ends(rows)
    both = f"before {before['throughput']:,.1f}, after {after['throughput']:,.1f}: {gained(rows)}"
    reading.save(bars(rows, runs), path.with_name(BARS), both)
    return text


def _values(rows: Sequence[Row], axis: str) -> list[Any]:
    values = {row[axis] for row in rows}
    return sorted(values, key=lambda value: (isinstance(value, str), value or 0))


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "default" if value is None else str(value)
