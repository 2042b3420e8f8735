"""Lesson 03's pictures: padding against packing, and who attends to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtlib.learn.drawing import INK, bare, box, canvas, key


def draw_question() -> Any:
    """Three documents in windows of eight: padded, and packed."""
    sizes = (5, 3, 7)
    figure, axes = canvas(
        "Three documents need 3 windows if padded, 2 and a bit if packed",
        "Above: each of three documents of 5, 3 and 7 tokens has a window of 8 of its own, with "
        "an end-of-text behind it, and 6 of 24 places are padding. Below: the same documents in a "
        "row, an end-of-text behind each, fill two windows of 8 and 2 places of a third. Thick "
        "lines show where windows end.",
        size=(7, 2.6),
    )
    bare(axes, 25, 2)
    axes.set_yticks([0, 1], ["padded", "packed"])
    axes.tick_params(axis="y", length=0)
    start = 0.0
    for number, size in enumerate(sizes):
        box(axes, 8 * number, 0, size, "activations", f"doc {number}")
        box(axes, 8 * number + size, 0, 1, "other")
        if size < 7:
            box(axes, 8 * number + size + 1, 0, 7 - size, "outline")
        box(axes, start, 1, size, "activations", f"doc {number}")
        box(axes, start + size, 1, 1, "other")
        start += size + 1
    for row, ends in ((0, (8, 16, 24)), (1, (8, 16))):
        for end in ends:
            axes.plot([end, end], [row - 0.42, row + 0.42], color=INK, linewidth=3, linestyle="-")
    words = {"activations": "tokens of a document", "other": "end-of-text", "outline": "padding"}
    key(figure, list(words), words)
    return figure


def draw_mask(mask: Any, documents: Sequence[int]) -> Any:
    """Which token (down) may attend to which (across) in a packed window."""
    square = np.asarray(mask, dtype=bool)
    s, pairs = len(square), int(square.sum())
    causal = s * (s + 1) // 2
    figure, axes = canvas(
        f"The mask keeps {pairs} of {causal} causal pairs",
        f"A square of {s} by {s} tokens. Filled are the {pairs} pairs in which a token may attend "
        f"to an earlier one, or itself, of the same document: {len(set(documents))} triangles on "
        "the diagonal.",
        size=(4.6, 3.8),
    )
    bare(axes, s, s)
    axes.set_xticks([k + 0.5 for k in range(s)], [str(k) for k in range(s)])
    axes.set_yticks(range(s), [str(i) for i in range(s)])
    axes.tick_params(length=0)
    axes.set(xlabel="attends to token", ylabel="token")
    for i, k in zip(*square.nonzero(), strict=True):
        box(axes, int(k), int(i), 1, "activations", height=1)
    for place in range(1, s):
        if documents[place] != documents[place - 1]:
            axes.axhline(place - 0.5, color=INK, linewidth=2, linestyle="-")
            axes.axvline(place, color=INK, linewidth=2, linestyle="-")
    return figure
