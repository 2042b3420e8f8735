"""Lesson 10's pictures: its question, the calls of a run that hung, a loss that comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import lines
from dtlib.learn.drawing import bare, box, canvas, key, ranks
from dtlib.measure.clinic.dumps import Call


def draw_question() -> Any:
    """Four ranks: three wait in a collective, one is somewhere else."""
    figure, axes = canvas(
        "Three ranks wait for the fourth. What is it doing instead?",
        "Four ranks in rows, with time to the right. All compute and join the first collective. "
        "Then ranks 0, 1 and 3 wait in the second one, and what rank 2 does has a question mark.",
        size=(7, 2.8),
    )
    bare(axes, 10.2, 4)
    ranks(axes, 4, 10.2)
    for rank in range(4):
        box(axes, 0.1, rank, 1.8, "other", "compute")
        box(axes, 2.1, rank, 1.5, "communication", "sum 1")
        box(axes, 3.8, rank, 1.8, "other", "compute")
        if rank == 2:
            box(axes, 5.8, rank, 4.3, "outline", "?")
        else:
            box(axes, 5.8, rank, 4.3, "waiting", "waits in sum 2")
    return figure


def draw_records(calls: Mapping[int, Sequence[Call]]) -> Any:
    """The collectives of each rank by number; those that differ from rank 0's are hatched anew."""
    most = max(len(own) for own in calls.values())
    first = next(iter(calls.values()))
    odd = sorted(
        {
            (rank, call.number)
            for rank, own in calls.items()
            for call, other in zip(own, first, strict=False)
            if call.shape != other.shape
        }
    )
    told = "; ".join(
        f"rank {rank}: " + ", ".join(f"{call.number} {call}" for call in own)
        for rank, own in calls.items()
    )
    where = f"Rank {odd[0][0]} differs from collective {odd[0][1]} on" if odd else "All agree"
    figure, axes = canvas(
        f"{where}; the bug is not on the line where all wait", told, size=(7.4, 2.8)
    )
    bare(axes, 2.0 * most, len(calls))
    ranks(axes, len(calls), 2.0 * most)
    for row, (rank, own) in enumerate(calls.items()):
        for call in own:
            kind = "gradients" if (rank, call.number) in odd else "communication"
            box(axes, 2.0 * (call.number - 1), row, 1.9, kind, f"line {call.where.line}")
    key(figure, ["communication", "gradients"],
        {"communication": "the same as rank 0", "gradients": "another tensor"})  # fmt: skip
    return figure


def draw_losses(losses: Sequence[float]) -> Any:
    """The losses of a patient on one rank: they fall, and come back."""
    steps = list(range(len(losses)))
    figure, axes = canvas(
        "The loss falls, and comes back",
        "Loss by step: " + ", ".join(f"{loss:.3g}" for loss in losses) + ".",
        size=(6, 2.8),
    )
    axes.set(xlabel="step", ylabel="loss", ylim=(0, 1.15 * max(losses)))
    lines(axes, {"p14": (steps, list(losses))})
    return figure
