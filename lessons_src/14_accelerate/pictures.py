"""Lesson 14's pictures: who calls whom, and which rank sees which sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import label_ends
from dtlib.learn.drawing import bare, box, canvas, key, ranks, send

Batches = Sequence[Sequence[Sequence[int]]]  # of each rank, in each round: the samples


def draw_question() -> Any:
    """Your script calls Accelerate, which calls one of three, and all of them the collectives."""
    figure, axes = canvas(
        "You write one script. Does Accelerate call what you asked for?",
        "Five layers, each calling the one below. At the top your script with its loop. It calls "
        "Accelerate. Accelerate calls torch's DDP if the configuration is ddp.yaml, torch's FSDP "
        "for fsdp.yaml, or DeepSpeed's ZeRO for zero2.yaml. All three call collectives, such as "
        "all-reduce, reduce-scatter and all-gather. gloo carries their messages between CPUs, "
        "NCCL between NVIDIA GPUs.",
        size=(7, 3.7),
    )
    bare(axes, 10, 5.2)
    box(axes, 2.5, 0, 5, "outline", "your script: one loop", height=0.6)
    send(axes, (5, 0.3), (5, 0.7), kind="outline")
    box(axes, 0.2, 1, 9.6, "other", "Accelerate: wraps model, optimizer and loader", height=0.6)
    ways = {"ddp.yaml": "torch DDP", "fsdp.yaml": "torch FSDP", "zero2.yaml": "DeepSpeed ZeRO"}
    for k, (name, text) in enumerate(ways.items()):
        middle = 1.65 + 3.35 * k
        send(axes, (middle, 1.3), (middle, 2.0), name, kind="outline")
        box(axes, middle - 1.45, 2.3, 2.9, "outline", text, height=0.6)
        send(axes, (middle, 2.6), (middle, 3.0), kind="outline")
    words = "collectives: all-reduce, reduce-scatter, all-gather"
    box(axes, 0.2, 3.3, 9.6, "communication", words, height=0.6)
    for middle, text in ((2.5, "gloo, between CPUs"), (7.5, "NCCL, between NVIDIA GPUs")):
        send(axes, (middle, 3.6), (middle, 4.0), kind="outline")
        box(axes, middle - 2.3, 4.3, 4.6, "outline", text, height=0.6)
    return figure


def draw_batches(even: Batches, uneven: Batches) -> Any:
    """Which rank sees which sample in which round; what comes a second time is hatched.

    Parameters
    ----------
    even, uneven
        The batches of each rank, with `even_batches=True` and with `False`.
    """
    again = _again(even)
    rows = sum(len(batch) for rank in even for batch in rank)
    longest = max(len(rank) for rank in uneven)
    ended = [f"rank {r}" for r, rank in enumerate(uneven) if len(rank) < longest]
    figure, panels = canvas(
        f"To give every rank a full batch, {len(again)} of {rows} rows come a second time",
        f"{_said('even_batches=True', even)} {_said('even_batches=False', uneven)} With False "
        f"no sample comes twice, but fewer rounds are left for {' and '.join(ended) or 'no rank'}.",
        size=(7, 2.4), columns=2, sharey=True,
    )  # fmt: skip
    for panel, batches, name in zip(panels, (even, uneven), (True, False), strict=True):
        _draw(panel, batches)
        panel.set_title(f"even_batches={name}", fontweight="normal")
    words = {"other": "a sample", "waiting": "a sample that comes a second time"}
    key(figure, ["other", "waiting"], words)
    return figure


def _draw(axes: Any, batches: Batches) -> None:
    size = max(len(batch) for rank in batches for batch in rank)
    rounds = max(map(len, batches))
    ranks(axes, len(batches), rounds * (size + 0.5))
    again = _again(batches)
    for r, rank in enumerate(batches):
        for k, batch in enumerate(rank):
            for slot, sample in enumerate(batch):
                kind = "waiting" if (k, r, slot) in again else "other"
                box(axes, k * (size + 0.5) + slot + 0.04, r, 0.92, kind, str(sample))
    middles = [k * (size + 0.5) + size / 2 for k in range(rounds)]
    axes.set_xticks(middles, [f"round {k + 1}" for k in range(rounds)])
    axes.tick_params(axis="x", length=0)


def _again(batches: Batches) -> set[tuple[int, int, int]]:
    """The places (round, rank, slot) of samples that had come before, round by round."""
    seen: set[int] = set()
    again = set()
    for k in range(max(map(len, batches))):
        for r, rank in enumerate(batches):
            for slot, sample in enumerate(rank[k] if k < len(rank) else []):
                if sample in seen:
                    again.add((k, r, slot))
                seen.add(sample)
    return again


def _said(name: str, batches: Batches) -> str:
    parts = [
        f"rank {r} gets {' then '.join(' '.join(map(str, batch)) for batch in rank)}"
        for r, rank in enumerate(batches)
    ]
    return f"{name}: {', '.join(parts)}."


def draw_rates(seen: Mapping[int, Sequence[float]]) -> Any:
    """The learning rate of each optimizer step, by the number of processes."""
    many = max(seen)
    zero = next((k for k, rate in enumerate(seen[many]) if rate == 0), len(seen[many]))
    figure, axes = canvas(
        f"On {many} processes the rate reaches 0 in step {zero} of {len(seen[many])}",
        alt="Learning rate by optimizer step: "
        + "; ".join(f"{n} process{'es' * (n > 1)}: from {rates[0]:g} to {rates[-1]:g}"
                    for n, rates in seen.items()) + f"; on {many} it is 0 from step {zero} on.",
        size=(6, 3),
    )  # fmt: skip
    axes.set(xlabel="step of the optimizer", ylabel="learning rate")
    ends = []
    for n, rates in seen.items():
        (line,) = axes.plot(range(len(rates)), rates, linestyle="-")  # measured
        words = f"{n} process{'es' * (n > 1)}"
        if n == many and zero < len(rates):  # at the end both lines are near 0
            axes.annotate(words, (zero, 0), (6, 6), textcoords="offset points")
        else:
            ends.append((words, (len(rates) - 1.0, rates[-1]), str(line.get_color())))
    label_ends(axes, ends)
    return figure
