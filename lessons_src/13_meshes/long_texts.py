"""Ring attention step by step, with positions in a row and in zig-zag: lesson 13's pictures."""

from __future__ import annotations

from typing import Any

from dtlib.learn.drawing import box, canvas, key, ranks, send
from dtlib.sim.context_parallel import (
    ring_messages,
    ring_steps,
    ring_traffic,
    scores,
    scores_of_slowest,
    ulysses_traffic,
)

from .mesh_runs import Table

WAYS = {"neighbouring positions": False, "zig-zag": True}
WIDE = 4.2  # of a step in the picture


def draw_ring(n: int = 4) -> Any:
    """Whose keys and values each rank has in each step, and how much it computes with them."""
    figure, several = canvas(
        "With zig-zag every rank computes the same in every step of the ring",
        "Two panels with ranks in rows and steps of the ring from left to right; a number says "
        "whose keys and values a rank has, the filled part how much it computes with them. "
        + " ".join(_in_words(name, zigzag, n) for name, zigzag in WAYS.items()),
        size=(7, 1 + 0.95 * n), rows=2,
    )  # fmt: skip
    for axes, (name, zigzag) in zip(several, WAYS.items(), strict=True):
        ranks(axes, n, WIDE * n)
        axes.set_title(name, loc="left")
        for t, step in enumerate(ring_steps(n, zigzag)):
            for rank, (holder, pairs) in enumerate(step):
                x = WIDE * t + 0.2
                box(axes, x, rank, 2.8, "activations", part=(0, _part(pairs, zigzag)))
                said = axes.text(x + 1.4, rank, str(holder), ha="center", va="center")
                said.set_bbox({"facecolor": "#ffffff", "edgecolor": "none", "pad": 1.5})
                if t < n - 1:
                    send(axes, (x + 2.9, rank), (x + WIDE, (rank + 1) % n))
    words = {"activations": "computed", "outline": "not computed: hidden by the mask",
             "communication": "keys and values"}  # fmt: skip
    key(figure, list(words), words)
    return figure


def _part(pairs: list[Any], zigzag: bool) -> float:
    """Of the scores of a rank's queries and the keys that it has, those that are computed."""
    return len(pairs) / (4 if zigzag else 1)


def _in_words(name: str, zigzag: bool, n: int) -> str:
    said = []
    for t, step in enumerate(ring_steps(n, zigzag)):
        each = (f"{holder} ({_part(pairs, zigzag):.0%})" for holder, pairs in step)
        said.append(f"step {t}: " + ", ".join(each))
    return f"{name}: " + "; ".join(said) + "."


def work(n: int = 4) -> Table:
    """Pairs of chunks that each rank computes, and that the slowest of each step adds up to."""
    rows: list[list[Any]] = []
    for name, zigzag in WAYS.items():
        each = [scores(2 * n, rank, n, zigzag) for rank in range(n)]
        rows.append([name, *each, scores_of_slowest(2 * n, n, zigzag)])
    columns = ["", *(f"rank {rank}" for rank in range(n)), "slowest of each step, added up"]
    return (
        rows,
        columns,
        f"Squares of scores computed for one head, as wide as one of {2 * n} chunks",
    )


def sent(n: int = 8) -> Table:
    """What a rank sends for a block of Llama 3's width with 131,072 positions."""
    shape = {"batch": 1, "sequence": 131072, "kv_heads": 8, "head_size": 128, "ranks": n, "size": 2}
    ways = {
        "ring attention": (ring_messages(n), ring_traffic(**shape)),
        "Ulysses": (8 * (n - 1), ulysses_traffic(heads=128, **shape)),
    }
    rows: list[list[Any]] = [
        [name, calls, f"{sum(row['wire'] for row in traffic) / 1e9:.2f}"]
        for name, (calls, traffic) in ways.items()
    ]
    caption = f"One block of Llama 3 405B on {n} ranks, 131,072 positions in bf16, by formulas"
    return (rows, ["", "messages of a rank", "GB sent by a rank"], caption)
