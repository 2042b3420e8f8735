"""The checks of lesson 00: a share of a batch, and a sum over all ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Exercise, Passed, Wrong
from dtlib.learn.diagnosis import examine, number

from . import my_share
from .my_share import joined

RANKS = (1, 3, 4)
EMPTY = "rank 0 has no numbers"


def everyones_sum(numbers: torch.Tensor) -> torch.Tensor:
    """The sum of the numbers of all ranks, the same on every rank."""
    total = numbers.sum()
    dist.all_reduce(total)
    return total


def check_everyones_sum(student: Callable[..., Any]) -> Passed:
    """Run the function on 1, 3 and 4 real ranks; on the last two also with an empty rank.

    Rank r holds 10**r, r + 1 times, so that the sum of three ranks reads 321: a digit says how
    often a rank was heard.
    """
    painted, uneven = _case("rank r holds 10**r, r + 1 times", _painted), _case(EMPTY, _uneven)
    plan = [(n, [painted, uneven] if n > 1 else [painted]) for n in RANKS]
    examine(student, plan, _mistake)
    return Passed(note=f"Every rank has the sum, on {joined(list(RANKS))} ranks.")


def _case(label: str, numbers: Callable[[int], list[float]]) -> Case:
    def make(rank: int, n: int) -> torch.Tensor:
        return torch.tensor(numbers(rank))

    def want(rank: int, n: int) -> torch.Tensor:
        return torch.tensor(sum(sum(numbers(r)) for r in range(n)))

    def judge(got: torch.Tensor, rank: int, n: int) -> bool:
        return got.numel() == 1 and float(got) == float(want(rank, n))

    return Case(label, make, want, judge=judge)


def _painted(rank: int) -> list[float]:
    return [float(10**rank)] * (rank + 1)


def _uneven(rank: int) -> list[float]:
    return [float(2 * k + 1) for k in range(rank)]


def _mistake(seen: Round) -> Wrong | None:
    """Recognise what one case shows."""
    if seen.failures:
        return _failure(seen)
    case, n = seen.label, seen.n
    for one in seen.ranks:
        if one.kind == "none":
            return Wrong("none", case)
        if len(one.values) != 1:
            what = f"{math.prod(one.shape)} numbers" if one.kind == "tensor" else f"a {one.kind}"
            return Wrong("not_one", case, rank=one.rank, got=what)
    got = [one.values[0] for one in seen.ranks]
    lists = [seen.case.make(rank, n).tolist() for rank in range(n)]
    facts = {"right": number(seen.ranks[0].want[0]), "world_size": n, "last": n - 1}
    if n == 1:
        return Wrong("alone", case, got=number(got[0]), **facts)
    if not any(one.messages for one in seen.ranks):
        return Wrong("local", case, got=joined([number(value) for value in got]), **facts)
    for rank, value in enumerate(got):
        if value != got[0] and any(one.right for one in seen.ranks):
            both = {"first": number(got[0]), "other": number(value)}
            return Wrong("to_one_rank", case, rank=rank, **both)
    known = _recognise(got[0], lists)
    return Wrong(known, case, got=number(got[0]), **facts) if known else None


def _failure(seen: Round) -> Wrong | None:
    """Recognise an exception, or ranks that waited in vain."""
    failures = seen.failures
    called = {tuple(rank.collectives) for rank in seen.ranks}
    if any(failure.mismatch for _, failure in failures) and len(called) == 1:
        return Wrong("lengths", seen.label)
    own = [(rank, failure) for rank, failure in failures if failure.own]
    if own and seen.case.label == EMPTY and own[0][0] == 0:
        return Wrong("empty", seen.label, error=own[0][1].error)
    absent = [rank.rank for rank in seen.ranks if not rank.collectives]
    if not own and absent:
        return Wrong("returned_early", seen.label, rank=absent[0])
    return None


def _recognise(got: float, lists: list[list[float]]) -> str | None:
    """The name of a value that is the same on all ranks and wrong."""
    n, right = len(lists), sum(sum(numbers) for numbers in lists)
    known = {
        "one_number_each": sum(numbers[0] for numbers in lists if numbers),
        "mean": right / n,
        "count": sum(len(numbers) for numbers in lists),
        "ranks": n * (n - 1) / 2,
        "largest": max(sum(numbers) for numbers in lists),
        "twice": right * n,
    }
    for mistake, value in known.items():
        if abs(got - value) < 1e-6 * max(1.0, abs(value)):
            return mistake
    return None


EXERCISES = {
    "my_share": my_share.EXERCISE,
    "everyones_sum": Exercise(check=check_everyones_sum, reference=everyones_sum, minutes=9),
}
