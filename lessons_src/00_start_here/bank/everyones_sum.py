"""More answers to `everyones_sum`, for the tests alone."""

import torch
import torch.distributed as dist

REDUCE = "dist.all_reduce(total)"  # words of the solution


def gathered(numbers):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, numbers.sum().item())
    return sum(everyone)


def not_one_number(numbers):
    everyone = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, numbers.sum())
    return torch.stack([*everyone, everyone[0]])


def not_on_rank_zero(numbers):
    return gathered(numbers) * (dist.get_rank() > 0 or dist.get_world_size() == 1)


ALSO_WRONG = [
    ("local", lambda numbers: numbers.sum() * dist.get_world_size()),
    ("not_one", not_one_number),
    ("value", {REDUCE: "dist.broadcast(total, 0)"}),
    ("value", not_on_rank_zero),
]
ALSO_RIGHT = [
    gathered,
    {"return total": "return total.item()"},
    {REDUCE: "dist.reduce(total, 0)\n    dist.broadcast(total, 0)"},
]
