"""More answers to `everyones_sum`, for the tests alone."""

import torch
import torch.distributed as dist


def python_number(numbers):
    total = torch.tensor([float(sum(numbers))])
    dist.all_reduce(total)
    return total.item()


def gathered(numbers):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, numbers.sum().item())
    return sum(everyone)


def reduced_and_spread(numbers):
    total = numbers.sum()
    dist.reduce(total, 0)
    dist.broadcast(total, 0)
    return total


def not_one_number(numbers):
    everyone = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, numbers.sum())
    return torch.stack([*everyone, everyone[0]])


def spread_from_rank_zero(numbers):
    total = numbers.sum()
    dist.broadcast(total, 0)
    return total


def not_on_rank_zero(numbers):
    return gathered(numbers) * (dist.get_rank() > 0 or dist.get_world_size() == 1)


ALSO_WRONG = [
    ("local", lambda numbers: numbers.sum() * dist.get_world_size()),
    ("not_one", not_one_number),
    ("value", spread_from_rank_zero),
    ("value", not_on_rank_zero),
]
ALSO_RIGHT = [python_number, gathered, reduced_and_spread]
