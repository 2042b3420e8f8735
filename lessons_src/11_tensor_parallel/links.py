"""How long a block computes and sends, by formulas: for lesson 11's figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dtlib.learn import charts
from dtlib.learn.drawing import canvas

from .tp_runs import Table
from .what_if import block_ms

GPT3, TOKENS, GPUS, NETWORK = 12288, 2048, 8, 50.0  # width; tokens; in a node; GB/s between nodes


class Row(NamedTuple):
    """Milliseconds of one block, forward and backward, on so many ranks."""

    ranks: int
    computing: float
    sending: float


def block_times(ranks: Sequence[int]) -> list[Row]:
    """A row for each number of ranks, for a block of GPT-3 and nodes of 8 GPUs."""
    return [Row(n, *block_ms(GPT3, TOKENS, n, GPUS, NETWORK)) for n in ranks]


def table(rows: Sequence[Row]) -> Table:
    """The numbers of `draw`."""
    cells = [
        [row.ranks, -(-row.ranks // GPUS), f"{row.computing:.2f}", f"{row.sending:.2f}",
         f"{row.sending / (row.sending + row.computing):.0%}"]
        for row in rows
    ]  # fmt: skip
    columns = ["ranks", "nodes", "computing, ms", "sending, ms", "part of the time that is sending"]
    return (cells, columns, "Simulated: a block of GPT-3, if nothing overlaps")


def draw(rows: Sequence[Row]) -> Any:
    """Milliseconds over ranks; dashed, because they are simulated."""
    said = "; ".join(f"{n} ranks: {a:.2f} and {b:.2f} ms" for n, a, b in rows)
    figure, axes = canvas(
        "Beyond a node of 8 GPUs, sending takes longer than computing",
        f"Simulated milliseconds of computing and sending for one block of GPT-3. {said}.",
        size=(7, 3),
    )
    ranks = [row.ranks for row in rows]
    lines = {
        "computing": (ranks, [row.computing for row in rows]),
        "sending": (ranks, [row.sending for row in rows]),
    }
    charts.lines(axes, lines, simulated=list(lines))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(n) for n in ranks])
    axes.set(xlabel="ranks", ylabel="ms for a block (simulated)", ylim=(0, None))
    return figure
