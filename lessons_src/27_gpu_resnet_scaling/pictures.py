"""Lesson 27's pictures: how much of eight GPUs is at work, and one device's ladder of settings."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dtlib.learn.charts import label_ends, lines
from dtlib.learn.drawing import INK, bare, box, canvas, key
from dtlib.sim import hardware

# airbench's own baseline: 32.3 PFLOP in 7 minutes on one A100.
SOURCE = "https://github.com/KellerJordan/cifar10-airbench"
REACHED = 32.3e15 / (7 * 60)


def draw_question(speedup: float = 6.5, gpus: int = 8) -> Any:
    """One GPU that uses a part of its peak, and eight that are `speedup` times as fast."""
    alone = REACHED / hardware.peak("a100-80", "bf16")
    each = alone * speedup / gpus
    figure, axes = canvas(
        f"{gpus} GPUs, {speedup:g} times as fast as one: how much of them is at work?",
        f"Each frame is the peak of an A100. A published ResNet-18 fills {100 * alone:.0f} % of "
        f"the frame of one GPU. Below are {gpus} frames, dashed since they are computed: if {gpus} "
        f"such GPUs were {speedup:g} times as fast, {100 * each:.0f} % of each would be full.",
        size=(7, 2.2),
    )
    bare(axes, 9.6, 2)
    axes.set_yticks([0, 1], ["1 GPU, published", f"{gpus} GPUs, computed"])
    axes.tick_params(length=0)
    wide = 9.0 / gpus
    box(axes, 0.1, 0, wide * 0.92, "forward", part=(0, alone))
    axes.text(0.2 + wide, 0, f"{100 * alone:.0f} % of its peak", va="center", color=INK)
    for gpu in range(gpus):
        box(axes, 0.1 + gpu * wide, 1, wide * 0.92, "forward", part=(0, each), simulated=True)
    axes.text(4.6, 1.7, f"{100 * each:.0f} % of each peak", ha="center", va="center", color=INK)
    axes.set_ylim(2.0, -0.5)
    key(figure, ["forward", "outline"], {"forward": "at work for the model", "outline": "the peak"})
    return figure


def peak_of(device: str) -> float | None:
    """The dense bf16 peak of the GPU of this name in FLOP/s; None if it is not known."""
    for row in hardware.DEVICES.values():
        if "board" in row and re.search(row["board"], device):
            return row["peak"].get("bf16")
    return None


def draw_ladder(
    rates: Mapping[str, Sequence[float]], per_image: float, peak: float, device: str,
) -> Any:  # fmt: skip
    """What each setting reaches of the peak: medians, and a line from the slowest to the fastest.

    `per_image` is the FLOP of an image, forward and backward; `peak` is in FLOP/s.
    """
    shares = {name: [rate * per_image / peak for rate in found] for name, found in rates.items()}
    middle = {name: statistics.median(found) for name, found in shares.items()}
    best = max(middle, key=lambda name: middle[name])
    cpu = device == "cpu"
    of = f"what a matrix product reaches on {'this CPU' if cpu else device}"
    if peak_of(device):
        of = f"the bf16 peak of one {device}"
    title = f"{best} reaches {100 * middle[best]:.0f} % of the peak"
    if middle[best] > 0.9:  # no training step does: something disturbed the peak's measurement
        title = f"{title}: was the peak measured too low?"
    said = "; ".join(
        f"{name} {100 * middle[name]:.1f}, from {100 * min(found):.1f} to {100 * max(found):.1f}"
        for name, found in shares.items()
    )
    figure, axes = canvas(
        f"A CPU, no GPU: {title}" if cpu else title,
        f"A bar for each setting, in % of {of}: {said}.",
        size=(7, 0.9 + 0.42 * len(shares)),
    )
    for row, (name, found) in enumerate(shares.items()):
        box(axes, 0, row, 100 * middle[name], "forward", height=0.6)
        axes.plot([100 * min(found), 100 * max(found)], [row, row], "-", color=INK, linewidth=2)
        axes.annotate(f"{100 * middle[name]:.1f} %", (100 * max(found), row), (6, 0),
                      textcoords="offset points", va="center")  # fmt: skip
    most = 100 * max(map(max, shares.values()))
    axes.set_yticks(range(len(shares)), list(shares))
    axes.set(ylim=(len(shares) - 0.4, -0.6), xlim=(0, 1.25 * most))
    size = f"{peak / 1e9:.0f} GFLOP/s" if cpu else f"{peak / 1e12:.0f} TFLOP/s"
    axes.set_xlabel(f"MFU: % of {of} ({size})")
    return figure


def draw_efficiency(studies: Sequence[Sequence[Mapping[str, Any]]], sure: Collection[str]) -> Any:
    """Efficiency by ranks of each study's rows: the median as a line, lowest to highest as bars.

    On the most ranks, only the efficiency of the studies in `sure` differs from 1 beyond the noise.
    """
    last = {rows[0]["study"]: rows[-1] for rows in studies}
    ranks = studies[0][-1]["world_size"]
    noisy = {name: ", within noise" * (name not in sure) for name in last}
    told = ", ".join(
        f"{100 * row['efficiency']:.0f} % ({name}{noisy[name]})" for name, row in last.items()
    )
    figure, axes = canvas(
        f"{ranks} ranks: efficiency {told}",
        alt=f"Efficiency in percent by the number of ranks. On {ranks}: " + "; ".join(
            f"{name} {100 * row['efficiency']:.0f}, from {100 * row['efficiency_min']:.0f} to "
            f"{100 * row['efficiency_max']:.0f}" for name, row in last.items()) + "; ideal 100.",
        size=(6.4, 3),
    )  # fmt: skip
    axes.set(xlabel="ranks", ylabel="efficiency, %")
    axes.set_xticks([row["world_size"] for row in studies[0]])
    axes.set_ylim(
        0, 1.05 * max(100, *(100 * row["efficiency_max"] for row in itertools.chain(*studies)))
    )
    # Side by side, or nobody could tell whose spread is whose.
    places = [0.02 * (ranks - 1) * (2 * k - len(studies) + 1) for k in range(len(studies))]
    labels = []
    for aside, rows in zip(places, studies, strict=True):
        at = [row["world_size"] + aside for row in rows]
        (line,) = axes.plot(at, [100 * row["efficiency"] for row in rows], "-o")
        for x, row in zip(at, rows, strict=True):
            ends = 100 * row["efficiency_min"], 100 * row["efficiency_max"]
            axes.plot([x, x], ends, color=line.get_color(), marker="_", linestyle="-")
        point = ranks + places[-1], 100 * rows[-1]["efficiency"]
        labels.append((str(rows[0]["study"]), point, str(line.get_color())))
    label_ends(axes, labels)
    axes.axhline(100, color=INK, linestyle=":")
    return figure


def draw_accuracy(curves: Mapping[str, Sequence[float]]) -> Any:
    """Test accuracy after each epoch, by batch."""
    best = max(curves, key=lambda batch: curves[batch][-1])
    figure, axes = canvas(
        f"After {len(curves[best])} epochs, batch {best} has learnt the most",
        alt="Test accuracy by epoch: " + "; ".join(
            f"batch {batch} ends at {line[-1]:.2f}" for batch, line in curves.items()) + ".",
        size=(6.4, 3),
    )  # fmt: skip
    axes.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1))
    axes.xaxis.get_major_locator().set_params(integer=True)
    points = {f"batch {b}": (range(1, len(line) + 1), line) for b, line in curves.items()}
    lines(axes, points, marker="o")
    return figure
