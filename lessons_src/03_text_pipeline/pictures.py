"""Lesson 03's pictures: padding against packing, and who attends to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtlib.learn.drawing import INK, bare, box, canvas

KINDS = ("weights", "gradients", "optimizer", "activations")  # a colour for each document


def draw_question() -> Any:
    """Three documents in windows of eight: padded, and packed."""
    sizes = (5, 3, 7)
    figure, axes = canvas(
        "Three documents in windows of 8 tokens: padding fills 3 windows, packing 2",
        "Above: each of three documents of 5, 3 and 7 tokens has a window of 8 of its own, and 9 "
        "of 24 places are padding. Below: the same documents in a row, an end-of-text behind each, "
        "fill two windows of 8 and 2 places of a third.",
        size=(7, 2.6),
    )
    bare(axes, 25, 2)
    axes.set_yticks([0, 1], ["padded", "packed"])
    axes.tick_params(axis="y", length=0)
    start = 0.0
    for number, size in enumerate(sizes):
        box(axes, 8.3 * number, 0, size, KINDS[number], f"document {number}")
        box(axes, 8.3 * number + size, 0, 8 - size, "outline", "padding" if size < 6 else "")
        box(axes, start, 1, size, KINDS[number], f"document {number}")
        box(axes, start + size, 1, 1, "outline", "end")
        start += size + 1
    for window in (8, 16):
        axes.plot([window, window], [0.55, 1.45], color=INK, linewidth=2)
    return figure


def draw_mask(mask: Any, documents: Sequence[int]) -> Any:
    """Which token (down) may attend to which (across) in a packed window."""
    square = np.asarray(mask, dtype=bool)
    s, pairs = len(square), int(square.sum())
    causal = s * (s + 1) // 2
    figure, axes = canvas(
        f"{pairs} of {causal} causal pairs stay inside their document",
        f"A square of {s} by {s} tokens. Filled are the {pairs} pairs in which a token may attend "
        f"to an earlier one, or itself, of the same document: {len(set(documents))} triangles on "
        "the diagonal.",
        size=(3.6, 3.6),
    )
    axes.imshow(~square, cmap="gray", vmin=-0.6, vmax=1.0)
    axes.set(xlabel="attends to token", ylabel="token")
    for place in range(1, s):
        if documents[place] != documents[place - 1]:
            axes.axhline(place - 0.5, color=INK, linewidth=1)
            axes.axvline(place - 0.5, color=INK, linewidth=1)
    return figure
