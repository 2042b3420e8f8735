"""Lesson 09's pictures: its question, and what the runs of the lesson measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn import charts
from dtlib.learn.drawing import INK, bare, box, canvas, send

NODES, GPUS = 2, 4
PORT = 29500


def draw_question() -> Any:
    """Eight processes on two nodes, and the variables by which each knows who it is."""
    everyone = [divmod(rank, GPUS) for rank in range(NODES * GPUS)]
    said = "; ".join(
        f"RANK {rank} has LOCAL_RANK {local} and GPU {local} of node {node}"
        for rank, (node, local) in enumerate(everyone)
    )
    shared = [f"WORLD_SIZE={NODES * GPUS}", f"LOCAL_WORLD_SIZE={GPUS}"]
    meeting = ["MASTER_ADDR=node-0", f"MASTER_PORT={PORT}"]
    figure, axes = canvas(
        "Eight ranks run your script. Which GPU does each take, and who saves?",
        f"Two nodes of four ranks. {said}. Node 0 has GROUP_RANK 0, node 1 has GROUP_RANK 1. All "
        f"eight have the same {', '.join(shared + meeting)}. An arrow leads from node 1 to node "
        "0: that is where all of them meet.",
        size=(7, 3.5),
    )
    bare(axes, 15.5, GPUS + 2.5)
    for node in range(NODES):
        left = 8.2 * node
        box(axes, left + 0.05, 2.05, 7.2, height=5)
        name = f"node-{node}:  GROUP_RANK={node}"
        axes.text(left + 0.3, 0.0, name, va="center", color=INK, fontweight="bold")
    for rank, (node, local) in enumerate(everyone):
        left, row = 8.2 * node, 1.0 + local
        axes.text(left + 0.3, row, f"RANK={rank}", va="center", color=INK)
        axes.text(left + 2.4, row, f"LOCAL_RANK={local}", va="center", color=INK)
        box(axes, left + 5.8, row, 1.35, "other", f"GPU {local}")
    send(axes, (8.25, 2.5), (7.25, 2.5), "meet")
    for row, (words, pairs) in enumerate((("on all eight", shared), ("all meet at", meeting))):
        axes.text(0.3, 5.0 + 0.65 * row, f"{words}:", va="center", color=INK)
        axes.text(4.0, 5.0 + 0.65 * row, "    ".join(pairs), va="center", color=INK)
    return figure


def draw_means(rows: Sequence[Sequence[float]]) -> Any:
    """Both means of one model's losses over the number of ranks: `rows` as in the table."""
    counts, _, naive, exact = zip(*rows, strict=True)
    low, high = min(naive), max(naive)
    figure, axes = canvas(
        "The mean of the ranks' means depends on the number of ranks",
        f"Test loss over the number of ranks, from {counts[0]} to {counts[-1]}: the mean of the "
        f"ranks' means goes from {low:.4g} to {high:.4g}, the exact mean stays at {exact[0]:.4g}.",
        size=(7, 2.8),
    )
    charts.lines(
        axes, {"mean of means": (counts, naive), "exact mean": (counts, exact)}, marker="o"
    )
    axes.set(xlabel="ranks", ylabel="test loss, nats", xticks=counts)
    return figure


def draw_apart(apart: Mapping[str, Sequence[float]], least: float = 1e-17) -> Any:
    """Distance of the losses of one rank and two, step by step; 0 is drawn at `least`."""
    steps = range(1, 1 + len(next(iter(apart.values()))))
    said = "; ".join(
        f"{name}: {far[0]:.0e} at step 1, {far[-1]:.0e} at step {len(far)}"
        for name, far in apart.items()
    )
    figure, axes = canvas(
        "Only the same micro-batches give the same bits",
        f"Relative distance of the losses of one rank and two, on a logarithmic scale. {said}.",
        size=(7, 3.4),
    )
    axes.set_yscale("log")
    axes.set(
        xlabel="step", ylabel=f"distance, relative\n(0 drawn at {least:.0e})", ylim=(least / 2, 10)
    )
    drawn = {name: (steps, [max(value, least) for value in far]) for name, far in apart.items()}
    charts.lines(axes, drawn, marker="o", markersize=4)
    return figure
