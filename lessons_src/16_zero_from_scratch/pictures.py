"""Pictures and the numbers of tables: what ZeRO holds, sends and gathers in lesson 16's runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtlib.scratch.zero.schedule import Instruction, OptimizerStep

from .zero_runs import KINDS, Books

Table = tuple[list[list[Any]], list[str], str]  # rows, columns, caption: for learn.table(*…)

WORDS = dict(zip(KINDS, ("weights", "gradients", "moments", "fp32 master"), strict=True))
# Table 1 of the paper (arXiv:1910.02054): GB on a rank for 7.5 billion parameters, stages 1 to 3.
PAPER = {
    1: (120, 120, 120),
    4: (52.5, 41.3, 30),
    16: (35.6, 21.6, 7.5),
    64: (31.4, 16.6, 1.88),
    256: (30.4, 15.4, 0.47),
    1024: (30.1, 15.1, 0.12),
}
HATCHES = ("", "//", "..", "xx")


def distances(found: Mapping[str, Books]) -> Table:
    """A row for each way and optimizer: how far the weights are from one process's, by step."""
    rows = [
        [name, kind, *(f"{value:.0e}" for value in far)]
        for name, books in found.items()
        for kind, far in books.far.items()
    ]
    steps = [f"step {k + 1}" for k in range(len(rows[0]) - 2)]
    return (rows, ["", "", *steps], "Largest distance of a weight from one process's")


def bytes_and_elements(found: Mapping[str, Books]) -> Table:
    """A row for each way: bytes a parameter by kind and in all, and elements sent in Ψ."""
    rows = [
        [name, *(books.held[kind] for kind in KINDS), books.bytes_each, books.sent]
        for name, books in found.items()
    ]
    caption = "Bytes a parameter on a rank, and elements that it sends in a step; fp32"
    return (rows, ["", *WORDS.values(), "all", "sent, in Ψ"], caption)


def held(panels: Mapping[str, Mapping[str, Books]]) -> Table:
    """The numbers of `draw_held`."""
    rows = [
        [title, name, *(books.held[kind] for kind in KINDS), books.bytes_each]
        for title, found in panels.items()
        for name, books in found.items()
    ]
    caption = "Bytes a parameter on a rank, measured between backward and update"
    return (rows, ["", "", *WORDS.values(), "all"], caption)


def stairs(panels: Mapping[str, tuple[Sequence[Instruction], Books]]) -> Table:
    """The numbers of `draw_stairs`, and what each schedule sends."""
    rows = [
        [title, max(books.stairs), books.sent, " ".join(f"{x:.0f}" for x in books.stairs)]
        for title, (_, books) in panels.items()
    ]
    columns = ["", "whole layers, at most", "sent, in Ψ", "after each line"]
    return (rows, columns, "Whole layers on rank 0, measured in a real step")


def beside_the_paper(held: Callable[..., Mapping[str, float]]) -> list[list[Any]]:
    """For each N of the paper's table the GB of stages 1 to 3 by `held`, and as printed there."""
    rows: list[list[Any]] = []
    for n, printed in PAPER.items():
        mine = [sum(held(7.5e9, n, stage, "mixed").values()) / 1e9 for stage in (1, 2, 3)]
        rows.append([n, *zip(mine, printed, strict=True)])
    return rows


def paper(rows: Sequence[Sequence[Any]]) -> Table:
    """The rows of `beside_the_paper`, by N."""
    cells = [[n, *(f"{x:.3f} | {y}" for x, y in pairs)] for n, *pairs in rows]
    caption = "GB (10⁹ bytes) on a rank, 7.5 billion parameters: yours | the paper"
    return (cells, ["N", "stage 1", "stage 2", "stage 3"], caption)


def as_printed(value: float, printed: float) -> bool:
    """Whether a value is within one unit of a printed number's last digit."""
    return abs(value - printed) < 10.0 ** -len(str(printed).partition(".")[2])


def draw_held(panels: Mapping[str, Mapping[str, Books]]) -> Any:
    """Stacked bars of bytes a parameter: a panel for each precision, a bar for each stage."""
    import matplotlib.pyplot as plt

    figure, several = plt.subplots(
        1, len(panels), figsize=(8, 3.4), sharey=True, layout="constrained", squeeze=False
    )
    for axes, (title, found) in zip(several[0], panels.items(), strict=True):
        floor = [0.0] * len(found)
        for kind, hatch in zip(KINDS, HATCHES, strict=True):
            part = [books.held[kind] for books in found.values()]
            options = {"label": WORDS[kind], "hatch": hatch, "edgecolor": "white"}
            axes.bar(list(found), part, 0.7, floor, **options)
            floor = [a + b for a, b in zip(floor, part, strict=True)]
        for place, height in enumerate(floor):
            axes.text(place, height + 0.2, f"{height:.3g}", ha="center")
        axes.set(title=title, ylim=(0, 18))
    several[0][0].set_ylabel("bytes a parameter")
    several[0][-1].legend(fontsize=9)
    return figure


def draw_stairs(panels: Mapping[str, tuple[Sequence[Instruction], Books]]) -> Any:
    """How many layers are whole after each line of a schedule, a panel for each schedule."""
    import matplotlib.pyplot as plt

    figure, several = plt.subplots(
        len(panels), 1, figsize=(8, 2.7 * len(panels)), layout="constrained", squeeze=False
    )
    top = max(max(books.stairs) for _, books in panels.values())
    for axes, (title, (lines, books)) in zip(several[:, 0], panels.items(), strict=True):
        words = [word(line) for line in lines if not isinstance(line, OptimizerStep)]
        axes.bar(range(len(books.stairs)), books.stairs, width=1, edgecolor="white")
        axes.set_xticks(range(len(words)), words, rotation=90, fontsize=8)
        axes.set(title=title, ylabel="whole layers", ylim=(0, top + 0.3))
        axes.set_yticks(range(int(top) + 1))
    return figure


def word(line: Instruction) -> str:
    """A line of a schedule as a picture writes it: `Free 2`."""
    name = type(line).__name__
    return f"{name} {getattr(line, 'block', '')}".strip()
