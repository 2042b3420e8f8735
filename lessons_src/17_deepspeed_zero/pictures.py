"""Lesson 17's pictures: its question, bytes by kind, and a speed-up taken apart by cause."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import waterfall
from dtlib.learn.drawing import INK, bare, box, canvas, key
from dtlib.measure.noise import Effect

# The ledger's names in the course's colours; the fp32 copy and padding have none of their own.
LOOK = {"parameters": "weights", "fp32_copy": "other", "padding": "outline"}
PUBLISHED = {
    "data parallel": (125.67, 13.62),
    "ZeRO stage 1": (52.10, 9.64),
    "ZeRO stage 2": (52.56, 10.55),
}  # seconds an epoch, GB at most; the lesson's first table


def draw_question() -> Any:
    """What sharding over one rank leaves on it, beside a published table."""
    said = "; ".join(f"{name} {s:.0f} s and {gb} GB" for name, (s, gb) in PUBLISHED.items())
    figure, (left, right) = canvas(
        "One rank's share is everything. What then makes it 2.4 times as fast?",
        "On the left the optimizer state that ZeRO leaves on a rank: a quarter of it with 4 ranks, "
        f"all of it with 1. On the right a published table of an epoch on one GPU: {said}.",
        size=(7, 2.3), columns=2, width_ratios=[2, 3],
    )  # fmt: skip
    bare(left, 4.1, 2)
    left.set_yticks(range(2), ["N = 4", "N = 1"])
    left.tick_params(axis="y", length=0)
    box(left, 0, 0, 4, "optimizer", "1/4", part=(0, 1 / 4))
    box(left, 0, 1, 4, "optimizer", "1/1")
    left.set_title("optimizer state on a rank", fontweight="normal")
    for row, (seconds, gigabytes) in enumerate(PUBLISHED.values()):
        box(right, 0, row, seconds, "other", height=0.6)
        right.annotate(f"{gigabytes} GB", (seconds, row), (5, 0), textcoords="offset points",
                       va="center")  # fmt: skip
    right.set_yticks(range(len(PUBLISHED)), list(PUBLISHED))
    right.set(xlim=(0, 165), ylim=(2.5, -0.5), xlabel="seconds an epoch, one GPU")
    return figure


def draw_held(each: Mapping[str, Mapping[str, float]], rule: Sequence[float]) -> Any:
    """Bytes a parameter by strategy and kind; a black mark where lesson 16's rule is."""
    sums = {name: sum(kinds.values()) for name, kinds in each.items()}
    said = "; ".join(f"{name} {total:.3g} bytes" for name, total in sums.items())
    marks = ", ".join(f"{mark:g}" for mark in rule)
    copies = ", ".join(f"{kinds['fp32_copy']:.3g} under {name}" for name, kinds in each.items())
    figure, axes = canvas(
        "Under DeepSpeed in fp32 a rank also holds an fp32 copy",
        f"A stacked bar of bytes a parameter for each strategy, by kind: {said}. Lesson 16's rule "
        f"says {marks}, and has no fp32 copy, which takes {copies}.",
        size=(7, 3.4),
    )
    _bars(axes, each)
    for place, mark in enumerate(rule):
        axes.plot([place - 0.43, place + 0.43], [mark] * 2, "-", color=INK, linewidth=3)
    axes.annotate("lesson 16's rule", (len(each) - 0.55, rule[-1]), (3, 0), va="center",
                  textcoords="offset points")  # fmt: skip
    axes.set(xlim=(-0.6, len(each) + 0.4), ylabel="bytes a parameter")
    _key(figure, each)
    return figure


def draw_memory(pages: Mapping[str, Mapping[str, float]]) -> Any:
    """MB at most for each setting of the ablation, by kind."""
    sums = {name: sum(kinds.values()) / 1e6 for name, kinds in pages.items()}
    said = "; ".join(f"{name} {total:.0f} MB" for name, total in sums.items())
    figure, axes = canvas(
        "Sixteen bits halve the activations; sharding over one rank saves nothing",
        f"A stacked bar of the most MB of each kind for each setting: {said}.",
        size=(7, 3.4),
    )
    _bars(axes, {name: {k: v / 1e6 for k, v in page.items()} for name, page in pages.items()})
    axes.set(ylabel="MB at most")
    _key(figure, pages)
    return figure


def draw_causes(causes: Mapping[str, Effect], stage: str) -> Any:
    """How torch alone becomes DeepSpeed with all changes: times as fast, cause by cause.

    Parameters
    ----------
    causes
        Words, and the effect of each.
    stage
        Which of them is the stage.
    """
    every = Effect(math.prod(effect.times for effect in causes.values()), causes[stage].spread)
    named = [(words + _noise(effect), effect.times) for words, effect in causes.items()]
    said = "; ".join(f"{words} ×{factor:.3g}" for words, factor in named)
    figure, axes = canvas(
        f"All changes: {every.times:.2f} times as fast{_noise(every)}. "
        f"Stage 2 alone: {causes[stage].times:.2f} times{_noise(causes[stage])}",
        f"From torch alone, 1, cause by cause to all changes, {every.times:.3g}: {said}. What is "
        "marked as noise lies within the spread of the baseline's own steps.",
        size=(7, 3),
    )
    waterfall(axes, ("torch alone, fp32", 1.0), named, "all, under DeepSpeed",
              "times as fast", factors=True)  # fmt: skip
    _plain_ticks(axes)
    return figure


def _noise(effect: Effect) -> str:
    return "" if effect.real else " (noise)"


def _bars(axes: Any, parts: Mapping[str, Mapping[str, float]]) -> None:
    top = 1.1 * max(sum(kinds.values()) for kinds in parts.values())
    for place, kinds in enumerate(parts.values()):
        floor = 0.0
        for kind, amount in kinds.items():
            if amount:
                box(axes, place - 0.35, floor + amount / 2, 0.7, LOOK.get(kind, kind),
                    height=amount)  # fmt: skip
            floor += amount
        axes.annotate(f"{floor:.3g}", (place, floor), (0, 3), textcoords="offset points",
                      ha="center", va="bottom")  # fmt: skip
    axes.set_xticks(range(len(parts)), list(parts))
    axes.set(xlim=(-0.6, len(parts) - 0.4), ylim=(0, top))


def _key(figure: Any, parts: Mapping[str, Mapping[str, float]]) -> None:
    kinds = [LOOK.get(kind, kind) for kind in next(iter(parts.values()))]
    key(figure, kinds, {"other": "fp32 copy", "outline": "padding"})


def _plain_ticks(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MultipleLocator, NullFormatter, NullLocator

    axes.xaxis.set_major_locator(MultipleLocator(0.5))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
