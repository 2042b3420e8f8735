"""Lesson 22's pictures: its question, and a step before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.drawing import INK, box, canvas, key, ranks, timeline

KINDS = {"input": "other", "compute": "outline", "communication": "communication"}
KINDS |= {"waiting": "waiting", "idle": "waiting"}


def draw_question() -> Any:
    """The patient's step, not to scale: which part can go?"""
    figure, axes = canvas(
        "What in this step can go, if it has to learn the same?",
        "One step of two ranks, time runs to the right, not to scale. Each of four micro-batches "
        "is loaded, computed and sent, one after another; then the optimizer updates the weights. "
        "A dotted line is where the step ends; an arrow leads from it to an earlier dotted line: "
        "could it end there?",
        size=(7, 2.5),
    )
    ranks(axes, 2, 14.2)
    for rank in (0, 1):
        for cut in range(4):
            x = 0.1 + 3.1 * cut
            box(axes, x, rank, 0.9, "other")
            box(axes, x + 0.9, rank, 1.1, "outline")
            box(axes, x + 2.0, rank, 1.0, "communication")
        box(axes, 12.5, rank, 0.7, "update")
    for x in (9.4, 13.2):
        axes.plot([x, x], [-0.5, 1.65], ":", color=INK)
    axes.annotate("", (9.4, 1.6), (13.2, 1.6), arrowprops={"arrowstyle": "->", "color": INK})
    axes.text(13.3, 1.6, "it ends here", va="center", color=INK)
    axes.text(9.3, 1.6, "could it end here?", ha="right", va="center", color=INK)
    axes.set_ylim(1.9, -0.5)
    words = {"other": "load", "outline": "compute", "communication": "send"}
    key(figure, [*words, "update"], words)
    return figure


def draw_steps(steps: Mapping[str, Mapping[str, float]], real: bool = True) -> Any:
    """Draw steps as bars of their parts.

    Parameters
    ----------
    steps
        For each step its parts in ms: input, compute, communication, waiting, idle.
    real
        Whether the last step is proven to be faster than the first.
    """
    whole = {name: sum(parts.values()) for name, parts in steps.items()}
    first, *_, last = steps
    words = {kind: part for part, kind in KINDS.items()} | {"waiting": "waiting or idle"}
    saved = dict.fromkeys(words.values(), 0.0)
    for part in steps[first]:
        saved[words[KINDS[part]]] += steps[first][part] - steps[last][part]
    most = max(saved, key=lambda part: saved[part])
    told = f"{whole[first]:.0f} ms {first} and {whole[last]:.0f} ms {last}"
    title = f"A step takes {told}; most is saved on {most}"
    said = "; ".join(
        f"{name}: " + ", ".join(f"{part} {ms:.0f} ms" for part, ms in parts.items())
        for name, parts in steps.items()
    )
    figure, axes = canvas(
        title if real else f"A step takes {told}: not proven to be faster",
        f"The mean step of the ranks as a bar of its parts, added up. {said}.",
        size=(7, 2.3),
    )
    spans = []
    for row, parts in enumerate(steps.values()):
        start = 0.0
        for part, ms in parts.items():
            spans.append((row, start, start + ms, KINDS[part], ""))
            start += ms
    timeline(axes, spans, names=list(steps))
    axes.set_xlabel("ms of a step, its parts added up")
    key(figure, list(words), words)
    return figure


def draw_gains(
    gains: Mapping[str, tuple[float, float, float]], real: Sequence[str], goal: float = 1.2
) -> Any:
    """Gain of each lever (median, smallest, largest); those not in `real` are within noise."""
    over = [name for name in real if gains[name][0] >= goal]
    figure, axes = canvas(
        f"Beyond the noise, {len(over)} of {len(gains) - 1} levers alone reach {goal:g} times the"
        " throughput",
        alt="Gain in throughput of each lever, median from smallest to largest: "
        + "; ".join(f"{name} {middle:.2f} ({low:.2f} to {high:.2f})"
                    + ("" if name in real else ", within the noise")
                    for name, (middle, low, high) in gains.items()) + ".",
        size=(7, 3.8),
    )  # fmt: skip
    # one disturbed pair may be so far off that nothing else could be seen
    end = max(2.5, 1.6 * max(middle for middle, _, _ in gains.values()))
    for row, (name, (middle, low, high)) in enumerate(gains.items()):
        box(axes, 0, row, middle, "other" if name in real else "waiting", height=0.7)
        axes.plot([low, min(high, end)], [row, row], color=INK, marker="|", linestyle="-")
        if high > end:
            axes.text(1.01 * end, row, f"→ {high:.3g}", va="center", color=INK)
    axes.axvline(1, color=INK, linewidth=1)
    axes.axvline(goal, color=INK, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(gains)), list(gains))
    axes.set(xlim=(0, end), ylim=(len(gains) - 0.4, -0.6))
    axes.set(xlabel=f"times the throughput; dashed: {goal:g}, crossed: within the noise")
    return figure
