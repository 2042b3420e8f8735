"""Collectives from send and recv alone: the ring, its two halves with shards, and the tree."""

from dtlib.scratch.ring.all_reduce import (
    METER,
    Step,
    all_gather_steps,
    carry_out,
    cut,
    exchange,
    reduce_scatter_steps,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from dtlib.scratch.ring.shards import all_gather, reduce_scatter
from dtlib.scratch.ring.tree import Hop, broadcast_hops, reduce_hops, tree_all_reduce

__all__ = [
    "METER",
    "Hop",
    "Step",
    "all_gather",
    "all_gather_steps",
    "broadcast_hops",
    "carry_out",
    "cut",
    "exchange",
    "reduce_hops",
    "reduce_scatter",
    "reduce_scatter_steps",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "tree_all_reduce",
]
