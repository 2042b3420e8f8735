"""Readable results of a scaling study: a table with the targets, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.errors import counted
from dtlib.measure.columns import aligned
from dtlib.study import reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


def table(rows: Sequence[Row], cores: int | None = None, judged: Sequence[str] = ()) -> str:
    """Return times, speed-ups and efficiencies as text, with their spread over the repeats.

    `rows` are those of `scaling.efficiency`; `cores` is the machine's number of cores, to note when
    ranks had to share them; `judged` are sentences about targets, below the table.
    """
    kind = rows[0]["study"]
    head = ["ranks", "global batch", "ms/step", "from", "to", rows[0]["throughput_unit"] or ""]
    head += ["speed-up", "efficiency", "from", "to", "comm", "input"]
    lines = [head, *(_line(row) for row in rows)]
    count, most = rows[0]["repeats"], rows[-1]["world_size"]
    found = [
        f"{kind.capitalize()} scaling, medians of {counted(count, 'repeat')}, with smallest"
        " and largest.",
        aligned(lines, left=0),
        *judged,
    ]
    if count < 2:
        found.append("One repeat shows no spread: with --repeats 3 you see how much is noise.")
    if cores is not None and most > cores:
        found.append(
            f"{most} ranks shared {counted(cores, 'core')}: beyond {counted(cores, 'rank')}, the"
            " efficiency shows the limits of the machine."
        )
    return "\n".join(found)


def _line(row: Row) -> list[str]:
    seconds = [row["step_time_s"], row["step_time_s_min"], row["step_time_s_max"]]
    shares = [row["efficiency"], row["efficiency_min"], row["efficiency_max"]]
    return [
        str(row["world_size"]),
        str(row["global_batch"]),
        *(f"{1e3 * value:.1f}" for value in seconds),
        f"{row['throughput']:,.0f}",
        f"{row['speedup']:.2f}",
        *(f"{100 * share:.0f} %" for share in shares),
        *("" if row[name] is None else f"{100 * row[name]:.0f} %"
          for name in ("comm_share", "data_share")),
    ]  # fmt: skip


def figure(rows: Sequence[Row]) -> Figure:
    """Return throughput, step time and efficiency over ranks, each with the ideal line."""
    from matplotlib.figure import Figure

    ranks = [row["world_size"] for row in rows]
    first = rows[0]
    steps = [first["step_time_s"] / (n if first["study"] == "strong" else 1) for n in ranks]
    panels: list[tuple[str, list[float], list[float]]] = [
        (first["throughput_unit"] or "throughput", [row["throughput"] for row in rows],
         [first["throughput"] * n for n in ranks]),
        ("ms a step", [1e3 * row["step_time_s"] for row in rows], [1e3 * s for s in steps]),
        ("efficiency", [row["efficiency"] for row in rows], [1.0] * len(ranks)),
    ]  # fmt: skip
    drawn = Figure(figsize=(10, 3.2), layout="constrained")
    for axes, (label, measured, ideal) in zip(drawn.subplots(1, 3), panels, strict=True):
        axes.plot(ranks, ideal, "k--", label="ideal")
        axes.plot(ranks, measured, "o-", color="#0072B2", label="measured, median")
        axes.set(xlabel="ranks", ylabel=label, xticks=ranks, ylim=(0, None))
    spread = ([row[f"efficiency{end}"] for row in rows] for end in ("_min", "_max"))
    axes.fill_between(ranks, *spread, alpha=0.3, color="#0072B2", label="all repeats")
    axes.legend(loc="lower left")
    return drawn


def save(
    rows: Sequence[Row], path: Path, cores: int | None = None, judged: Sequence[str] = ()
) -> str:
    """Write the figure, with its numbers in words inside, and the table; return the table."""
    words = "; ".join(
        f"{counted(row['world_size'], 'rank')}: {1e3 * row['step_time_s']:.1f} ms a step,"
        f" efficiency {row['efficiency']:.2f}"
        for row in rows
    )
    text = table(rows, cores, judged)
    reading.save(figure(rows), path, words, text)
    return text
