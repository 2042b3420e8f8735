"""More answers to `add_gradients`, for the tests alone."""

import torch
import torch.distributed as dist

from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.scratch.ring import reduce_scatter


def taken(parameters):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    for p in parameters:
        p.grad = None
    return flat


def in_place(parameters, shard):
    n = dist.get_world_size()
    flat = taken(parameters).div_(n)
    if shard is None:
        shard = torch.zeros_like(flat.tensor_split(n)[dist.get_rank()])
    shard += reduce_scatter(flat)
    return shard


def pads_and_asks_the_library(parameters, shard):
    n = dist.get_world_size()
    flat = taken(parameters)
    size = -(-len(flat) // n)
    new = torch.empty(size, dtype=flat.dtype)
    reduce_scatter_sum(new, torch.nn.functional.pad(flat, (0, n * size - len(flat))))
    new /= n
    return new if shard is None else new.add_(shard)


def pads_and_sums(parameters, shard):
    new = pads_and_asks_the_library(parameters, None) * dist.get_world_size()
    return new if shard is None else shard + new


ALSO_WRONG = [
    ("sum", pads_and_sums),
    ("too_much", {"reduce_scatter(flat)": "own_part(ring_all_reduce(flat))"}),
    ("shard", {"shard + mine": "shard + mine + mine"}),
    ("none", lambda parameters, shard: [].sort()),
    ("kind", lambda parameters, shard: parameters),
    ("shard", lambda parameters, shard: torch.full((5,), float("nan"))),
]
ALSO_RIGHT = [in_place, pads_and_asks_the_library]
