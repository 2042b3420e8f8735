"""Pictures of lesson 11: who holds which part of a matrix, and where the ranks talk."""

from __future__ import annotations

from typing import Any

from dtlib.learn.drawing import box, canvas, key, ranks, send

HEIGHT = 0.8  # of a matrix in a rank's row


def rows_of(axes: Any, x: float, rank: int, width: float, kind: str, n: int) -> None:
    """A matrix of which a rank has part r of N of the rows: a strip from left to right."""
    box(axes, x, rank, width, "outline", height=HEIGHT)
    strip = HEIGHT / n
    box(axes, x, rank - HEIGHT / 2 + (rank + 0.5) * strip, width, kind, height=strip)


def draw_question(n: int = 4) -> Any:
    """Each rank has x and a quarter of both matrices; how does it get y?"""
    figure, axes = canvas(
        f"Each of {n} ranks keeps a part of both matrices. How does it get all of y?",
        f"{n} ranks in rows. Each holds all of x, some part of the matrices A and B, one of {n}, "
        "and needs all of y = gelu(x A) B.",
        size=(7, 2.8),
    )
    ranks(axes, n, 14)
    for rank in range(n):
        box(axes, 0.1, rank, 2, "activations", "x")
        for x, name in ((3, "A"), (6.5, "B")):
            box(axes, x, rank, 3, "outline", f"¼ of {name}?" if n == 4 else f"1/{n} of {name}?")
        send(axes, (9.7, rank), (11.2, rank), "?", kind="outline")
        box(axes, 11.4, rank, 2, "activations", "y")
    return figure


def draw_mlp(n: int = 4) -> Any:
    """Columns of the middle on each rank are what its rows need; one sum at the end."""
    figure, axes = canvas(
        "Between the two matrices nobody talks, and after them all ranks add up",
        f"{n} ranks in rows. Rank r multiplies x with part r of the columns of A, which gives "
        f"part r of {n} of the columns of the middle, and that with part r of the rows of B, which "
        "gives a term of y, as large as y. Columns are drawn as a strip from top to bottom, rows "
        "as one from left to right. An all-reduce over all ranks makes y of the terms.",
        size=(7, 3),
    )
    ranks(axes, n, 17.2)
    for rank in range(n):
        part = (rank / n, (rank + 1) / n)
        box(axes, 0.1, rank, 1.4, "activations", "x")
        box(axes, 2.0, rank, 2.6, "weights", part=part, height=HEIGHT)
        send(axes, (4.7, rank), (5.5, rank), kind="outline")
        box(axes, 5.6, rank, 2.6, "activations", part=part, height=HEIGHT)
        rows_of(axes, 8.7, rank, 2.6, "weights", n)
        send(axes, (11.4, rank), (12.2, rank), kind="outline")
        box(axes, 12.3, rank, 1.4, "activations", "term")
        box(axes, 15.7, rank, 1.4, "activations", "y")
        for other in range(n):
            if other != rank:
                send(axes, (13.75, other), (15.65, rank))
    for x, text in ((3.3, "columns of A"), (6.9, "these columns"), (10, "rows of B")):
        axes.text(x, -0.5, text, ha="center", va="bottom", fontsize=9)
    axes.set_ylim(n - 0.5, -0.9)
    words = {"outline": "on other ranks", "communication": "all-reduce (g)"}
    key(figure, ["activations", "weights", "outline", "communication"], words)
    return figure


def draw_sequence(n: int = 4) -> Any:
    """What each rank keeps between the regions, with and without sequence parallelism."""
    figure, several = canvas(
        "With sequence parallelism a rank keeps only its own positions outside of f and g",
        f"Two panels with {n} ranks in rows. Above, plain tensor parallelism: norm and dropout "
        "work on all positions (rows) on every rank, f passes them on, the layer has its own "
        f"columns, g all-reduces. Below: norm and dropout work on part r of {n} of the positions; "
        "f gathers all positions, g reduces and scatters. Of each collective the first pass "
        "of the ring is drawn.",
        size=(7, 5), rows=2,
    )  # fmt: skip
    for axes, sequence in zip(several, (False, True), strict=True):
        ranks(axes, n, 15)
        axes.set_title("sequence" if sequence else "tensor", loc="left")
        for rank in range(n):
            part = (rank / n, (rank + 1) / n)
            for x in (0.1, 11.9):
                if sequence:
                    rows_of(axes, x, rank, 2.9, "activations", n)
                else:
                    box(axes, x, rank, 2.9, "activations", height=HEIGHT)
            box(axes, 4.6, rank, 1.6, "activations", "x")
            box(axes, 7.0, rank, 2.6, "weights", part=part)
            for start, end in ((3.05, 4.5), (9.7, 11.8)):
                talks = sequence or start > 5
                send(axes, (start, rank), (end, (rank + talks) % n),
                     kind="communication" if talks else "outline")  # fmt: skip
        f, g = ("all-gather", "reduce-scatter") if sequence else ("f", "all-reduce")
        above = {1.55: "norm", 3.8: f, 8.3: "columns, rows", 10.75: g, 13.35: "dropout"}
        for x, text in above.items():
            axes.text(x, -0.5, text, ha="center", va="bottom", fontsize=9)
        axes.set_ylim(n - 0.5, -1.1)
    words = {"outline": "on other ranks", "communication": "messages"}
    key(figure, ["activations", "weights", "outline", "communication"], words)
    return figure
