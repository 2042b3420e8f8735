"""More answers to `ring_all_reduce`, for the tests alone."""

import torch
import torch.distributed as dist

from dtlib.learn.solutions import altered
from dtlib.scratch.ring import exchange

from ..exercises.all_reduce import first_half, second_half, spread


def whole_tensor(x):
    total, passing = x.clone(), x.clone()
    for _ in range(dist.get_world_size() - 1):
        arrived = torch.empty_like(passing)
        exchange(passing, arrived)
        total += arrived
        passing = arrived
    return total


def ring_another_start(x):
    """Starts with chunk rank - 1, so that rank r finishes chunk r."""
    rank, n = dist.get_rank(), dist.get_world_size()
    x = x.clone()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank - s - 2) % n])
        exchange(chunks[(rank - s - 1) % n], arrived)
        chunks[(rank - s - 2) % n].add_(arrived)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank - s - 1) % n])
        exchange(chunks[(rank - s) % n], arrived)
        chunks[(rank - s - 1) % n].copy_(arrived)
    return x


def ring_one_loop(x):
    n, rank = dist.get_world_size(), dist.get_rank()
    chunks = list(torch.tensor_split(x, n))
    for s in range(2 * (n - 1)):
        out, into = chunks[(rank - s) % n], chunks[(rank - s - 1) % n]
        arrived = torch.empty_like(into)
        exchange(out, arrived)
        into.copy_(into + arrived if s < n - 1 else arrived)


def whole_tensor_in_two_messages(x):
    """Every rank adds in an order of its own."""
    total, passing = x.clone(), x.clone()
    for _ in range(dist.get_world_size() - 1):
        arrived = torch.empty_like(passing)
        for out, into in zip(passing.tensor_split(2), arrived.tensor_split(2), strict=True):
            exchange(out, into)
        total += arrived
        passing = arrived
    return total


def rank_1_sends_its_chunks_twice(x):
    """In one message, of which the second half is thrown away."""
    first_half(x)
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        out, into = chunks[(rank + 1 - s) % n], chunks[(rank - s) % n]
        arrived = torch.empty(len(into) * (1 + (rank == 2)))
        exchange(torch.cat([out] * (1 + (rank == 1))), arrived)
        into.copy_(arrived[: len(into)])


ALSO_WRONG = [
    ("whole_tensor", whole_tensor),
    ("bits", whole_tensor_in_two_messages),
    ("bytes", rank_1_sends_its_chunks_twice),
    (
        "extra_step",
        spread(first_half, altered(second_half, {"range(n - 1)": "range(n - (n == 1))"})),
    ),
    ("extra_step", spread(altered(first_half, {"range(n - 1)": "range(n - (n == 1))"}))),
]
ALSO_RIGHT = [ring_another_start, ring_one_loop]
# Of answers that are right in all but one way.
RARE = {"whole_tensor_same_bits"}
