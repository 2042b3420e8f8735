"""Tree all-reduce by hand: a binomial tree adds up towards rank 0, then spreads the sum.

In round k of the way up, a rank whose number ends in a 1 followed by k zero bits sends its sum to
the rank 2^k below it; the way down is the same tree backwards. That takes 2⌈log2 N⌉ rounds where a
ring takes 2(N-1), but every message is the whole tensor: a tree wins on small tensors. Ranks send
different amounts: each but rank 0 sends the tensor once up, and once down to each of its children.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19 (2005) 49-66.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist

from dtlib.scratch.ring.all_reduce import METER, cut


class Hop(NamedTuple):
    """One message of one rank: its peer, and what happens to the tensor."""

    peer: int
    action: str  # "send", "add" (what arrives) or "copy" (what arrives)


def reduce_hops(rank: int, n: int) -> list[Hop]:
    """The way up for one of `n` ranks: it adds its children, nearest first, and sends the sum."""
    hops: list[Hop] = []
    distance = 1
    while distance < n:
        if rank & distance:
            return [*hops, Hop(rank - distance, "send")]
        if rank + distance < n:
            hops.append(Hop(rank + distance, "add"))
        distance *= 2
    return hops


def broadcast_hops(rank: int, n: int) -> list[Hop]:
    """The way down: the way up backwards, with copies instead of sums."""
    opposite = {"send": "copy", "add": "send"}
    return [Hop(hop.peer, opposite[hop.action]) for hop in reversed(reduce_hops(rank, n))]


def tree_all_reduce(x: torch.Tensor) -> torch.Tensor:
    """Sum `x` over all ranks, in place; all ranks end with the bits that rank 0 summed.

    Parameters
    ----------
    x
        Contiguous tensor of any shape, equal on all ranks.

    Returns
    -------
    torch.Tensor
        `x`, now the sum.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    (flat,) = cut(x, 1)
    for peer, action in reduce_hops(rank, n) + broadcast_hops(rank, n):
        if action == "send":
            METER.bytes_sent += flat.nbytes
            dist.send(flat, peer)
            continue
        arrived = torch.empty_like(flat)
        dist.recv(arrived, peer)
        if action == "add":
            flat += arrived
        else:
            flat.copy_(arrived)
    return x
