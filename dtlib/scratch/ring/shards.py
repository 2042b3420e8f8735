"""Reduce-scatter and all-gather by hand, with the shards where ZeRO wants them: shard r on rank r.

They are the two halves of the ring all-reduce, shifted by one chunk: a rank that follows the
schedule of its left neighbour finishes chunk r instead of r+1. In each a rank sends every chunk but
one, (N-1)/N of the tensor: all but its own in a reduce-scatter, all but its right neighbour's in an
all-gather. If N does not divide the n elements, chunks differ by one element, and no rank sends
more than (N-1)·⌈n/N⌉.

P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
J. Parallel Distrib. Comput. 69 (2009) 117-124.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from dtlib.scratch.ring.all_reduce import all_gather_steps, carry_out, cut, reduce_scatter_steps


def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    """Sum `x` over all ranks and leave each rank with its own chunk of the sum.

    Parameters
    ----------
    x
        Contiguous tensor of any shape, equal on all ranks; it is overwritten: its other chunks
        are left with partial sums.

    Returns
    -------
    torch.Tensor
        The finished chunk r of rank r, flat; a view into `x`.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = cut(x, n)
    carry_out(chunks, reduce_scatter_steps((rank - 1) % n, n))
    return chunks[rank]


def all_gather(x: torch.Tensor) -> torch.Tensor:
    """Copy every rank's own chunk of `x` to all ranks, in place.

    Parameters
    ----------
    x
        Contiguous tensor of any shape, equal on all ranks, of which rank r holds chunk r.

    Returns
    -------
    torch.Tensor
        `x`, now complete, with the same bits on all ranks.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    carry_out(cut(x, n), all_gather_steps((rank - 1) % n, n))
    return x
