"""Ring all-reduce by hand.

Every rank cuts its tensor into N chunks. In the first half, the reduce-scatter, each chunk travels
once round the ring and each rank adds its own part; after N-1 steps rank r holds the finished sum
of chunk r+1. In the second half, the all-gather, the finished chunks travel round once more and
replace the partial sums. In each half a rank sends every chunk but one: 2(N-1)/N of its tensor in
all.

P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
J. Parallel Distrib. Comput. 69 (2009) 117-124.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist

from dtlib.errors import BadInput


class Step(NamedTuple):
    """One step of one rank: which chunk it sends, which arrives, and how that is used."""

    send: int
    receive: int
    update: str  # "add" or "copy"


def reduce_scatter_steps(rank: int, n: int) -> list[Step]:
    """The first half of the ring for one of `n` ranks: `n - 1` steps that add."""
    return [Step((rank - s) % n, (rank - s - 1) % n, "add") for s in range(n - 1)]


def all_gather_steps(rank: int, n: int) -> list[Step]:
    """The second half: `n - 1` steps that copy; it starts with the finished chunk."""
    return [Step((rank + 1 - s) % n, (rank - s) % n, "copy") for s in range(n - 1)]


class Meter:
    """Counts the bytes that this rank has sent by hand so far, as an odometer counts distance."""

    bytes_sent = 0


METER = Meter()


def exchange(out: torch.Tensor, into: torch.Tensor) -> None:
    """Send `out` to the right neighbour while receiving `into` from the left one.

    Both go into one batch, so that neither has to wait for the other: on GPUs, with two separate
    calls, each rank may wait for a neighbour that waits in turn.

    Parameters
    ----------
    out
        Contiguous tensor of any size, 0 included; it must not change during the call.
    into
        Contiguous tensor as large as what the left neighbour sends; not the memory of `out`.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    METER.bytes_sent += out.nbytes
    sending = dist.P2POp(dist.isend, out, (rank + 1) % n)
    receiving = dist.P2POp(dist.irecv, into, (rank - 1) % n)
    for work in reversed(dist.batch_isend_irecv([sending, receiving])):
        work.wait()


def cut(x: torch.Tensor, n: int) -> list[torch.Tensor]:
    """Cut a contiguous tensor into `n` flat views, the first ones longer by one, some empty.

    Raises
    ------
    BadInput
        When `x` is not contiguous: its chunks would be copies, and the sum would be lost.
    """
    if not x.is_contiguous():
        raise BadInput(
            f"a ring works on the memory of its tensor, but this one, of shape {tuple(x.shape)}, "
            "is not contiguous: pass x.contiguous() and keep the result."
        )
    return list(x.view(-1).tensor_split(n))


def carry_out(chunks: list[torch.Tensor], steps: list[Step]) -> None:
    """Carry out the steps of a schedule on this rank's chunks, in place."""
    for step in steps:
        arrived = torch.empty_like(chunks[step.receive])
        exchange(chunks[step.send], arrived)
        if step.update == "add":
            chunks[step.receive] += arrived
        else:
            chunks[step.receive].copy_(arrived)


def ring_reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    """Sum `x` over all ranks; rank r ends with the finished chunk (r + 1) % N.

    Parameters
    ----------
    x
        Contiguous tensor of any shape, equal on all ranks; it is changed in place, and all but
        one of its chunks are left with partial sums.

    Returns
    -------
    torch.Tensor
        `x`.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    carry_out(cut(x, n), reduce_scatter_steps(rank, n))
    return x


def ring_all_gather(x: torch.Tensor) -> torch.Tensor:
    """Copy every rank's finished chunk (r + 1) % N to all ranks, in place; return `x`."""
    rank, n = dist.get_rank(), dist.get_world_size()
    carry_out(cut(x, n), all_gather_steps(rank, n))
    return x


def ring_all_reduce(x: torch.Tensor) -> torch.Tensor:
    """Sum `x` over all ranks, in place: the first half of the ring, then the second.

    Every chunk is summed in one order and then copied, so that all ranks end with identical bits.

    Parameters
    ----------
    x
        Contiguous tensor of any shape, equal on all ranks.

    Returns
    -------
    torch.Tensor
        `x`, now the sum.
    """
    return ring_all_gather(ring_reduce_scatter(x))
