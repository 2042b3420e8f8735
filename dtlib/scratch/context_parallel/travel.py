"""Messages round the ring: to the next rank of the group, while this one computes.

A message is begun, then the rank computes with what it already has, and only then it waits. So the
link works at the same time as the processor: if a block takes longer to compute than to send, the
ring costs no time. Liu et al., arXiv:2310.01889, section 3, work out how long a block has to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from dtlib.scratch.tensor_parallel.parameters import Group


@dataclass
class Message:
    """A tensor on its way to the next rank, and one that comes from the rank before."""

    work: list[dist.Work]
    sent: Tensor  # must not be freed before it has arrived
    coming: Tensor

    def wait(self) -> Tensor:
        """Wait for both, and return the tensor that has come."""
        for work in self.work:
            work.wait()
        return self.coming


def begin(x: Tensor, group: Group = None) -> Message:
    """Begin to send `x` to the next rank, and to receive as much from the rank before.

    Parameters
    ----------
    x
        Contiguous, of the same shape on all ranks; it must not change until the message has
        arrived. In a group of one rank it comes back itself, and so does a shape
        without numbers, on `meta`.
    group
        The ranks of the ring; None is all of them.
    """
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    if n == 1 or x.is_meta:
        return Message([], x, x)
    coming = torch.empty_like(x)
    both = [
        dist.P2POp(dist.isend, x, group=group, group_peer=(rank + 1) % n),
        dist.P2POp(dist.irecv, coming, group=group, group_peer=(rank - 1) % n),
    ]
    return Message(dist.batch_isend_irecv(both), x, coming)


def round_the_ring(x: Tensor, group: Group = None) -> Iterator[tuple[int, Tensor]]:
    """Yield `(holder, its x)` for each rank of the group, this one's first.

    While the caller works with one of them, the next is on its way: N - 1 messages in all.
    """
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        message = begin(x, group)
        yield (rank - step) % n, x
        x = message.wait()
    yield (rank + 1) % n, x
