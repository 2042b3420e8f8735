"""Answers to lesson 00's exercises that its checks must refuse, and others to accept."""

import torch
import torch.distributed as dist

# --- my_share -----------------------------------------------------------------------------------


def dealt(batch, rank, world_size):
    return batch[rank::world_size]


def in_pieces(batch, rank, world_size):
    start = len(batch) * rank // world_size
    return batch[start : len(batch) * (rank + 1) // world_size]


def in_pieces_the_first_ones_longer(batch, rank, world_size):
    size, more = divmod(len(batch), world_size)
    start = rank * size + min(rank, more)
    return batch[start : start + size + (rank < more)]


def by_hand(batch, rank, world_size):
    mine = []
    for i, sample in enumerate(batch):
        if i % world_size == world_size - 1 - rank:
            mine.append(sample)
    return tuple(mine)


def everything(batch, rank, world_size):
    return batch


def first_piece(batch, rank, world_size):
    return batch[: len(batch) // world_size]


def counted_from_one(batch, rank, world_size):
    if world_size == 1:
        return batch
    size = len(batch) // world_size
    return batch[max(rank - 1, 0) * size : rank * size]


def one_too_far(batch, rank, world_size):
    if world_size == 1:
        return batch
    size = len(batch) // world_size
    return batch[(rank + 1) * size : (rank + 2) * size]


def pieces_of_n(batch, rank, world_size):
    if world_size == 1:
        return batch
    return batch[rank * world_size : (rank + 1) * world_size]


def swapped(batch, rank, world_size):
    return batch[world_size::rank]


def one_sample(batch, rank, world_size):
    return batch[rank]


def places(batch, rank, world_size):
    return list(range(rank, len(batch), world_size))


def generator(batch, rank, world_size):
    return (sample for sample in batch[rank::world_size])


def tail_dropped(batch, rank, world_size):
    size = len(batch) // world_size
    return batch[rank * size : (rank + 1) * size]


def tail_heaped(batch, rank, world_size):
    size = len(batch) // world_size
    return batch[rank * size :] if rank == world_size - 1 else batch[rank * size :][:size]


def overlapping(batch, rank, world_size):
    size = len(batch) // world_size
    return batch[rank * size : (rank + 1) * size + 1]


def no_return(batch, rank, world_size):
    batch[rank::world_size]


def popped(batch, rank, world_size):
    return [batch.pop(0) for _ in range(len(batch) // world_size)]


def nothing(batch, rank, world_size):
    return []


def skips_first(batch, rank, world_size):
    return batch[rank + 1 :: world_size] if world_size > 1 else batch


# --- everyones_sum ------------------------------------------------------------------------------


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
    ("my_share", "whole_batch", everything),
    ("my_share", "same_share", first_piece),
    ("my_share", "from_one", one_too_far),
    ("my_share", "pieces_of_n", pieces_of_n),
    ("my_share", "swapped", swapped),
    ("my_share", "one_sample", one_sample),
    ("my_share", "foreign", places),
    ("my_share", "not_a_list", generator),
    ("my_share", "tail_dropped", tail_dropped),
    ("my_share", "tail_heap", tail_heaped),
    ("my_share", "overlap", overlapping),
    ("my_share", "none", no_return),
    ("my_share", "changed", popped),
    ("my_share", "missing", skips_first),
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
    ("my_share", "from_one", counted_from_one),
    ("my_share", "missing", nothing),
    ("everyones_sum", "local", times_the_ranks),
]

RIGHT = [
    ("my_share", dealt),
    ("my_share", in_pieces),
    ("my_share", in_pieces_the_first_ones_longer),
    ("my_share", by_hand),
    ("everyones_sum", summed_then_reduced),
    ("everyones_sum", python_number),
    ("everyones_sum", gathered),
    ("everyones_sum", reduced_and_spread),
]

LADDER = (
    "my_share",
    "def my_share(batch, rank, world_size):\n    return batch",
    "def my_share(batch, rank, world_size):\n    return list(batch)",
)
