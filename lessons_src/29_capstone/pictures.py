"""Lesson 29's pictures: its question, and the student's efficiencies with every repeat."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn import charts
from dtlib.learn.drawing import INK, bare, box, canvas, send


def draw_question() -> Any:
    """Tables on the left, a reviewer in the middle, three documents on the right."""
    figure, axes = canvas(
        "Would your numbers convince somebody who doubts them?",
        "Three boxes on the left, what you have measured: a strong study, a weak study and"
        " my_runs.csv. Arrows lead to a box in the middle, a reviewer, who asks: same work, which"
        " baseline, how many repeats, measured or simulated? From there arrows lead to three boxes"
        " on the right: a paper of four pages, five slides, a request for node-hours. A dashed box"
        " for simulated numbers leads only to the request, and says so.",
        size=(7, 2.9),
    )
    bare(axes, 12, 4)
    for row, words in enumerate(("strong study", "weak study", "my_runs.csv")):
        box(axes, 0.1, row, 2.9, "other", words)
        send(axes, (3.0, row), (4.4, 1), kind="outline")
    box(axes, 0.1, 3, 2.9, "outline", "simulated", simulated=True)
    box(axes, 4.4, 1, 3.0, "outline", height=2.7)
    axes.text(5.9, 0.05, "a reviewer asks", ha="center", va="center", fontweight="bold")
    questions = ("the same work?", "which baseline?", "which spread?", "measured?")
    for line, words in enumerate(questions):
        axes.text(5.9, 0.55 + 0.47 * line, words, ha="center", va="center")
    for row, words in enumerate(("paper, 4 pages", "5 slides", "request, node-hours")):
        send(axes, (7.4, 1), (8.6, row), kind="outline")
        box(axes, 8.6, row, 3.3, "other", words)
    send(axes, (3.0, 3), (8.6, 2.25), kind="outline", simulated=True)
    axes.text(6.6, 3.15, "only where it says so", ha="center", va="center")
    return figure


def draw_spread(studies: Mapping[str, Mapping[int, Sequence[float]]]) -> Any:
    """Draw the efficiencies of each study in a panel of its own.

    Parameters
    ----------
    studies
        By kind, the efficiencies of all repeats by number of ranks.
    """
    said = []
    for kind, each in studies.items():
        most = max(each)
        low, middle, high = min(each[most]), statistics.median(each[most]), max(each[most])
        said.append(f"{kind} {middle:.2f} ({low:.2f} to {high:.2f})")
    figure, panels = canvas(
        "Your efficiency: " + ", ".join(said),
        f"A panel for each study, efficiency over the number of ranks, with a dot for each repeat,"
        f" the median and the range. On the most ranks: {'; '.join(said)}.",
        size=(7, 2.8),
        columns=len(studies),
        sharey=True,
        squeeze=False,
    )
    top = max(1.1, *(max(values) for each in studies.values() for values in each.values()))
    for axes, (kind, each) in zip(panels[0], studies.items(), strict=True):
        counts, width = list(each), max(each) - min(each) or 1
        medians = [statistics.median(values) for values in each.values()]
        ends = [[m - min(v) for m, v in zip(medians, each.values(), strict=True)],
                [max(v) - m for m, v in zip(medians, each.values(), strict=True)]]  # fmt: skip
        axes.errorbar(counts, medians, ends, fmt="s-", color="C0", capsize=4, markersize=5)
        for n, values in each.items():
            axes.plot([n - 0.06 * width] * len(values), values, "o", color=INK, markersize=3)
        axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
        axes.set(xlabel="ranks", xticks=counts, ylim=(0, 1.08 * top))
        axes.set_xlim(min(counts) - 0.15 * width, max(counts) + 0.1 * width)
        axes.set_title(f"{kind} scaling", loc="left", fontweight="normal")
        charts.label_ends(axes, [("median", (counts[-1], medians[-1]), "C0")])
    panels[0][0].set_ylabel("efficiency")
    return figure
