"""Answers to `everyones_sum` that its check must refuse, and others to accept."""

import torch
import torch.distributed as dist


def summed_then_reduced(numbers):
    total = numbers.sum()
    dist.all_reduce(total)
    return total


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


def only_local(numbers):
    return numbers.sum()


def returns_nothing(numbers):
    return dist.all_reduce(numbers.sum())


def to_rank_zero(numbers):
    total = numbers.sum()
    dist.reduce(total, 0)
    return total


def first_number(numbers):
    total = numbers[0].clone()
    dist.all_reduce(total)
    return total


def whole_tensor(numbers):
    dist.all_reduce(numbers)
    return numbers.sum()


def early_return(numbers):
    if len(numbers) == 0:
        return torch.tensor(0.0)
    total = numbers.sum()
    dist.all_reduce(total)
    return total


def empty_raises(numbers):
    total = numbers.cumsum(0)[-1]
    dist.all_reduce(total)
    return total


def averaged(numbers):
    total = numbers.sum()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def counted(numbers):
    total = torch.tensor(float(len(numbers)))
    dist.all_reduce(total)
    return total


def sum_of_ranks(numbers):
    total = torch.tensor(float(dist.get_rank()))
    dist.all_reduce(total)
    return total if dist.get_world_size() > 1 else numbers.sum()


def largest(numbers):
    total = numbers.sum()
    dist.all_reduce(total, dist.ReduceOp.MAX)
    return total


def twice(numbers):
    total = numbers.sum()
    dist.all_reduce(total)
    dist.all_reduce(total)
    return total


def needs_a_second_rank(numbers):
    total = numbers.sum()
    dist.all_reduce(total)
    return total - 1 if dist.get_world_size() == 1 else total


def not_one_number(numbers):
    everyone = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, numbers.sum())
    return torch.stack([*everyone, everyone[0]])


def times_the_ranks(numbers):
    return numbers.sum() * dist.get_world_size()


def spread_from_rank_zero(numbers):
    total = numbers.sum()
    dist.broadcast(total, 0)
    return total


WRONG = [
    ("everyones_sum", "local", only_local),
    ("everyones_sum", "value", spread_from_rank_zero),
    ("everyones_sum", "none", returns_nothing),
    ("everyones_sum", "to_one_rank", to_rank_zero),
    ("everyones_sum", "one_number_each", first_number),
    ("everyones_sum", "lengths", whole_tensor),
    ("everyones_sum", "returned_early", early_return),
    ("everyones_sum", "empty", empty_raises),
    ("everyones_sum", "mean", averaged),
    ("everyones_sum", "count", counted),
    ("everyones_sum", "ranks", sum_of_ranks),
    ("everyones_sum", "largest", largest),
    ("everyones_sum", "twice", twice),
    ("everyones_sum", "alone", needs_a_second_rank),
    ("everyones_sum", "not_one", not_one_number),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("everyones_sum", "local", times_the_ranks),
]

RIGHT = [
    ("everyones_sum", summed_then_reduced),
    ("everyones_sum", python_number),
    ("everyones_sum", gathered),
    ("everyones_sum", reduced_and_spread),
]
