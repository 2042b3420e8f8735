"""Recursive halving and doubling: as few bytes as a ring, in as few steps as a tree.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19 (2005) 49-66, section 4.5.
"""

import torch
import torch.distributed as dist


def halving_doubling(x: torch.Tensor) -> torch.Tensor:
    """Sum 1-D `x` over all ranks in place; their number must be a power of two.

    First every rank swaps half of what it still answers for with a partner, N/2 ranks away, then
    N/4, and so on, and adds: a reduce-scatter in log2 N steps. Then the same steps run backwards
    and hand out the sums.
    """
    rank, mine, done = dist.get_rank(), x, []
    distance = dist.get_world_size() // 2
    while distance:
        partner = rank ^ distance
        low, high = mine.tensor_split(2)
        keep, give = (high, low) if rank & distance else (low, high)
        arrived = torch.empty_like(keep)
        _swap(give, arrived, partner)
        keep += arrived
        done.append((keep, give, partner))
        mine, distance = keep, distance // 2
    for keep, give, partner in reversed(done):
        _swap(keep, give, partner)
    return x


def _swap(out: torch.Tensor, into: torch.Tensor, partner: int) -> None:
    both = [dist.P2POp(dist.isend, out, partner), dist.P2POp(dist.irecv, into, partner)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
