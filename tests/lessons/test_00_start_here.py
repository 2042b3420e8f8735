"""Lesson 00: every wrong answer of its bank gets its own sentence, every right one passes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from dtlib.learn import source
from dtlib.learn.checking import COMMON, Passed, Wrong, sentence
from dtlib.learn.checks import start_here
from dtlib.learn.ladder import judge

LESSON = source.find("00")


def verdict(name: str, answer: Callable[..., Any]) -> Any:
    return judge(LESSON, name, start_here.EXERCISES[name], answer)


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


WRONG_SHARES = {
    everything: "whole_batch",
    first_piece: "same_share",
    one_too_far: "from_one",
    pieces_of_n: "pieces_of_n",
    swapped: "swapped",
    one_sample: "one_sample",
    places: "foreign",
    generator: "not_a_list",
    tail_dropped: "tail_dropped",
    tail_heaped: "tail_heap",
    overlapping: "overlap",
    no_return: "none",
    popped: "changed",
    counted_from_one: "from_one",
    skips_first: "missing",
    nothing: "missing",
}


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


WRONG_SUMS = {
    only_local: "local",
    times_the_ranks: "local",
    spread_from_rank_zero: "value",
    returns_nothing: "none",
    to_rank_zero: "to_one_rank",
    first_number: "one_number_each",
    whole_tensor: "lengths",
    early_return: "returned_early",
    empty_raises: "empty",
    averaged: "mean",
    counted: "count",
    sum_of_ranks: "ranks",
    largest: "largest",
    twice: "twice",
    needs_a_second_rank: "alone",
    not_one_number: "not_one",
}

BANK = [("my_share", answer, key) for answer, key in WRONG_SHARES.items()]
BANK += [("everyones_sum", answer, key) for answer, key in WRONG_SUMS.items()]


@pytest.mark.parametrize(("name", "answer", "key"), BANK, ids=[a.__name__ for _, a, _ in BANK])
def test_a_wrong_answer_is_refused_in_one_sentence_of_its_own(name, answer, key):
    found = verdict(name, answer)
    assert isinstance(found, Wrong), found
    assert found.mistake == key, found
    assert found.case
    text = sentence(LESSON.sidecar, name, found)
    assert "{" not in text
    assert text.count("?") == 1 and text.endswith("?")
    corrected = ast.unparse(ast.parse(LESSON.definition(name)).body[0].body[-1])
    assert corrected not in text


RIGHT = [
    ("my_share", answer) for answer in (dealt, in_pieces, in_pieces_the_first_ones_longer, by_hand)
]
RIGHT += [
    ("everyones_sum", answer)
    for answer in (summed_then_reduced, python_number, gathered, reduced_and_spread)
]


@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=[a.__name__ for _, a in RIGHT])
def test_a_right_answer_in_other_words_passes(name, answer):
    assert isinstance(verdict(name, answer), Passed)


@pytest.mark.parametrize("name", list(start_here.EXERCISES))
def test_the_lesson_solves_it_as_the_check_does(name):
    """The solution that students see and the reference of `learn.given` are the same code."""
    reference = ast.parse(textwrap.dedent(inspect.getsource(getattr(start_here, name)))).body[0]
    solution = ast.parse(LESSON.definition(name)).body[0]
    assert isinstance(reference, ast.FunctionDef)
    assert isinstance(solution, ast.FunctionDef)
    assert ast.dump(ast.Module(reference.body[1:], [])) == ast.dump(
        ast.Module(solution.body[1:], [])
    )


@pytest.mark.parametrize("name", list(start_here.EXERCISES))
def test_every_sentence_of_the_sidecar_is_reached_by_the_bank(name):
    reached = {key for exercise, _, key in BANK if exercise == name}
    assert reached - set(COMMON) <= set(LESSON.sidecar["mistakes"][name]) <= reached


@pytest.mark.parametrize("name", list(start_here.EXERCISES))
def test_no_two_mistakes_share_a_sentence(name):
    sentences = list(LESSON.sidecar["mistakes"][name].values())
    assert len(sentences) == len(set(sentences))
