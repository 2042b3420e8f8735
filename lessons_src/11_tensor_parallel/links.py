"""How long a block computes and sends, by formulas: for lesson 11's figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dtlib.learn import charts
from dtlib.learn.drawing import INK, canvas

from .tp_runs import Table
from .what_if import block_ms

# Width; tokens; GPUs in a node; GB/s of an adapter to the other nodes.
GPT3, TOKENS, GPUS, NETWORK = 12288, 2048, 8, 50.0


class Row(NamedTuple):
    """Milliseconds of one block, forward and backward, on so many ranks.

    `sending` if each GPU has a network adapter of its own, `shared` if a node has a single one.
    """

    ranks: int
    computing: float
    sending: float
    shared: float


def block_times(ranks: Sequence[int]) -> list[Row]:
    """A row for each number of ranks, for a block of GPT-3 and nodes of 8 GPUs."""
    rows = []
    for n in ranks:
        computing, sending = block_ms(GPT3, TOKENS, n, GPUS, NETWORK)
        _, shared = block_ms(GPT3, TOKENS, n, GPUS, NETWORK / min(n, GPUS))
        rows.append(Row(n, computing, sending, shared))
    return rows


def table(rows: Sequence[Row]) -> Table:
    """The numbers of `draw`, and what they are with a single adapter in a node."""
    alone = rows[0].ranks * (rows[0].computing + rows[0].sending)
    cells = [
        [row.ranks, -(-row.ranks // GPUS), f"{row.computing:.2f}", f"{row.sending:.2f}",
         f"{row.sending / row.computing:.2f}",
         f"{alone / row.ranks / (row.computing + row.sending):.2f}", f"{row.shared:.2f}"]
        for row in rows
    ]  # fmt: skip
    columns = [
        "ranks", "nodes", "computing, ms", "sending, ms", "sending over computing",
        f"efficiency against {rows[0].ranks} ranks", "sending, one adapter in a node, ms",
    ]  # fmt: skip
    return (cells, columns, "Simulated: a block of GPT-3, if nothing overlaps")


def draw(rows: Sequence[Row]) -> Any:
    """Milliseconds over ranks; dashed, because they are simulated."""
    said = "; ".join(f"{row.ranks} ranks: {row.computing:.2f} and {row.sending:.2f} ms"
                     for row in rows)  # fmt: skip
    longer = next(row.ranks for row in rows if row.sending > row.computing)
    figure, axes = canvas(
        f"Computing shrinks and sending grows: on {longer} ranks sending takes longer",
        f"Simulated milliseconds of computing and sending for one block of GPT-3. {said}. A line "
        f"marks where a node of {GPUS} GPUs ends.",
        size=(7, 3),
    )
    ranks = [row.ranks for row in rows]
    lines = {
        "computing": (ranks, [row.computing for row in rows]),
        "sending": (ranks, [row.sending for row in rows]),
    }
    charts.lines(axes, lines, simulated=list(lines))
    axes.axvline(GPUS, linewidth=0.8, color=INK, alpha=0.5)
    axes.text(GPUS, axes.get_ylim()[1], " a node ends", va="top", color=INK)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(n) for n in ranks])
    axes.set_yscale("log", base=2)
    axes.set_yticks([0.5, 1, 2, 4, 8, 16, 32], ["0.5", "1", "2", "4", "8", "16", "32"])
    axes.set(xlabel="ranks", ylabel="ms for a block (simulated)")
    return figure
