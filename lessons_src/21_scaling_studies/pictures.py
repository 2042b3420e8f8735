"""Lesson 21's pictures: its question, the student's own study, and the border of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn import charts
from dtlib.learn.drawing import INK, box, canvas, ranks


def draw_question() -> Any:
    """What two GPUs may share: the same work, or as much work each."""
    figure, panels = canvas(
        "Two GPUs instead of one: does training scale?",
        "Three panels, time runs to the right. One GPU computes a batch in the time T(1). Two GPUs "
        "with half of that batch each should need half of the time: the same work, sooner. Two "
        "GPUs with a whole batch each should need the time T(1): more work in the same time. What "
        "they really need is a question mark.",
        size=(7, 2.3),
        columns=3,
    )
    shown = (
        ("one GPU", ["a batch"], 4.0),
        ("the same work, sooner?", ["½ batch", "½ batch"], 2.0),
        ("as much work each?", ["a batch", "a batch"], 4.0),
    )
    for axes, (title, words, width) in zip(panels, shown, strict=True):
        ranks(axes, 2, 5.0, name="GPU")
        if len(words) == 1:
            axes.set_yticks([0], ["GPU 0"])
        axes.set_title(title, fontweight="normal")
        for gpu, text in enumerate(words):
            box(axes, 0.05, gpu, width, "activations", text)
        if len(words) == 2:
            axes.text(width + 0.45, 0.5, "?", fontsize=16, ha="center", va="center", color=INK)
        axes.spines["bottom"].set_visible(True)
        axes.set_xticks([4.05], ["T(1)"])
    return figure


def draw_study(studies: Mapping[str, Sequence[Mapping[str, Any]]], sure: Mapping[str, bool]) -> Any:
    """Draw efficiency over ranks with the spread over the repeats.

    Parameters
    ----------
    studies
        By kind, rows of `dtlib.study.scaling.efficiency`.
    sure
        By kind, whether the efficiency on the most ranks differs from 1 by more than the noise.
    """
    last = {kind: rows[-1] for kind, rows in studies.items()}
    most = max(row["world_size"] for row in last.values())
    told = {kind: f"{kind}" if sure[kind] else f"{kind}, within noise" for kind in last}
    value = {kind: f"{row['efficiency']:.2f}" for kind, row in last.items()}
    ends = "; ".join(
        f"{told[kind]}: {value[kind]}, between {row['efficiency_min']:.2f} and"
        f" {row['efficiency_max']:.2f}"
        for kind, row in last.items()
    )
    figure, axes = canvas(
        f"On {most} ranks your efficiency is "
        + " and ".join(f"{value[kind]} ({told[kind]})" for kind in last),
        f"Efficiency over the number of ranks, medians with smallest and largest. {ends}.",
        size=(7, 3),
    )
    counts = sorted({row["world_size"] for rows in studies.values() for row in rows})
    axes.set(
        xlabel="ranks", ylabel="efficiency", xticks=counts, xlim=(min(counts) - 0.1, most + 0.1)
    )
    labels = []
    for k, (kind, rows) in enumerate(studies.items()):
        aside, colour = 0.02 * k - 0.01, f"C{k}"  # so that no spread hides the other
        middle = [row["efficiency"] for row in rows]
        spread = [
            [abs(row["efficiency"] - row[f"efficiency_{end}"]) for row in rows]
            for end in ("min", "max")
        ]
        places = [row["world_size"] + aside for row in rows]
        axes.errorbar(places, middle, spread, fmt="o-", capsize=4, color=colour)
        labels.append((f"{value[kind]}, {told[kind]}", (places[-1], middle[-1]), colour))
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
    axes.set_ylim(0, max(1.1, axes.get_ylim()[1]))
    charts.label_ends(axes, [*labels, ("ideal", (axes.get_xlim()[1], 1.0), INK)])
    return figure


def draw_border(curves: Mapping[str, Mapping[int, float]], node: int = 8) -> Any:
    """Draw simulated efficiencies over GPUs, with a line where the first node ends."""
    first = next(iter(curves))
    inside, outside = curves[first][node], curves[first][2 * node]
    said = "; ".join(
        f"{name}: {values[node]:.2f} on {node} GPUs, {values[2 * node]:.2f} on {2 * node},"
        f" {values[max(values)]:.2f} on {max(values)}"
        for name, values in curves.items()
    )
    figure, axes = canvas(
        f"Beyond the node's border efficiency falls from {inside:.2f} to {outside:.2f}"
        " if nothing is hidden",
        f"Simulated efficiency over 1 to {max(curves[first])} GPUs, dashed. {said}.",
        size=(7, 3.4),
    )
    counts = list(curves[first])
    axes.set_xscale("log", base=2)
    axes.set(ylim=(0, 1.05), xlabel="GPUs", ylabel="efficiency")
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.axvline(node * 2**0.5, color=INK, linewidth=1)
    axes.text(node * 2**0.46, 0.05, "NVLink", ha="right")
    axes.text(node * 2**0.54, 0.05, "InfiniBand")
    points = {name: (list(v), list(v.values())) for name, v in curves.items()}
    charts.lines(axes, points, simulated=list(curves), marker="o", markersize=4)
    return figure
