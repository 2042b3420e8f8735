"""Lesson 28's pictures: which GPT-2 fits on which cards under which strategy, simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import heat, stacks
from dtlib.learn.drawing import INK, canvas

from .what_if import GIB, GPT2, STRATEGIES, computing, held


def draw_question(ranks: int = 8, card: float = 8, micro_batch: int = 1) -> Any:
    """All sizes of GPT-2 under all strategies, by the rule of the what-if."""
    rows = {
        name: [
            sum(held(psi, way, ranks, computing(layers, width, heads, micro_batch)).values()) / GIB
            for way in STRATEGIES
        ]
        for name, layers, width, heads, psi in GPT2
    }
    words = f"{ranks} cards of {card:g} GiB, micro-batch {micro_batch}"
    asked = f"Which GPT-2 fits on your card? Simulated for {ranks} cards of {card:g} GiB"
    return draw_fits(rows, STRATEGIES, card, words, asked)


def draw_fits(
    rows: Mapping[str, Sequence[float]], ways: Sequence[str], card: float, words: str,
    asked: str = "",
) -> Any:  # fmt: skip
    """GiB that each card holds, by model (down) and strategy (across); crossed out: too much.

    `words` say which cards and which micro-batch; `asked` is a question, in place of the title.
    """
    fits = {name: [way for way, size in zip(ways, sizes, strict=True) if size <= card]
            for name, sizes in rows.items()}  # fmt: skip
    count, cells = sum(map(len, fits.values())), len(rows) * len(ways)
    said = "; ".join(
        f"{name}: " + ", ".join(f"{way} {size:.1f}" for way, size in zip(ways, sizes, strict=True))
        for name, sizes in rows.items()
    )
    figure, axes = canvas(
        asked or f"Simulated: {count} of {cells} cases fit {words}",
        f"Of {cells} cases {count} fit {words}. GiB on each card for each model and strategy, "
        f"computed; `single` uses one card. {said}.",
        size=(7, 2.7),
    )
    heat(axes, list(rows.values()), list(rows), list(ways), card, digits=".1f")
    for patch in axes.patches:
        patch.set_linestyle("--")  # nothing here was measured
    axes.set_xlabel("GiB on each card, simulated; crossed out: more than a card has")
    return figure


HELD = {"weights": "parameters", "gradients": "gradients", "optimizer": "optimizer",
        "other": "fp32_copy"}  # fmt: skip


def draw_held(rows: Sequence[Mapping[str, Any]]) -> Any:
    """MB that rank 0 holds under each strategy, by kind, in outlines of what formulas predict."""

    def amounts(row: Mapping[str, Any], what: str) -> dict[str, float]:
        return {kind: (row[what.format(name)] or 0) / 1e6 for kind, name in HELD.items()}

    measured = {row["strategy"]: amounts(row, "{}_bytes") for row in rows}
    predicted = [amounts(row, "predicted_{}_bytes") for row in rows]
    totals = ", ".join(f"{name} {sum(kinds.values()):.1f}" for name, kinds in measured.items())
    figure, axes = canvas(
        "Filled: what rank 0 holds (other: an fp32 copy). Outlines: the formulas",
        alt=f"MB held by rank 0 of weights, gradients, optimizer state and an fp32 copy: {totals}.",
        size=(7, 3.4),
    )
    stacks(axes, measured, "MB held by rank 0")
    floor = [0.0] * len(rows)
    for kind in HELD:
        rule = [kinds[kind] for kinds in predicted]
        axes.bar(range(len(rows)), rule, 0.86, floor, fill=False, edgecolor=INK)
        floor = [low + more for low, more in zip(floor, rule, strict=True)]
    return figure
