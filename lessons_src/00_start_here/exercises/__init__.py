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

# Ranks and samples of the cases, in order. At 2 ranks many wrong answers are right.
SHARES = ((1, 4), (3, 6), (4, 8), (3, 7), (3, 8), (4, 2))
RANKS = (1, 3, 4)
EMPTY = "rank 0 has no numbers"


def my_share(batch: list[Any], rank: int, world_size: int) -> list[Any]:
    """The samples of `batch` that rank `rank` works on."""
    return batch[rank::world_size]


def everyones_sum(numbers: torch.Tensor) -> torch.Tensor:
    """The sum of the numbers of all ranks, the same on every rank."""
    total = numbers.sum()
    dist.all_reduce(total)
    return total


def check_my_share(student: Callable[..., Any]) -> Passed:
    """Ask for the shares of all ranks, one after the other: no process is needed."""
    for world_size, size in SHARES:
        batch = [f"s{i}" for i in range(size)]
        case = f"{size} samples, {world_size} rank{'s' if world_size > 1 else ''}"
        shares = [_share(student, batch, rank, world_size, case) for rank in range(world_size)]
        _look_at(shares, batch, case)
    largest = " and ".join(f"{size} on {ranks}" for ranks, size in SHARES[-3:])
    return Passed(note=f"Every sample is taken once, also with {largest} ranks.")


def _share(
    student: Callable[..., Any], batch: list[str], rank: int, world_size: int, case: str
) -> list[str]:
    own = list(batch)
    try:
        share = student(own, rank, world_size)
    except ValueError as error:
        if "step cannot be zero" in str(error):
            raise Wrong("swapped", case) from None
        raise
    seen = {"rank": rank, "world_size": world_size, "size": len(batch)}
    if own != batch:
        raise Wrong("changed", case, left=len(own), **seen)
    if share is None:
        raise Wrong("none", case)
    if isinstance(share, str):
        raise Wrong("one_sample", case, got=share, **seen)
    if not isinstance(share, (list, tuple)):
        raise Wrong("not_a_list", case, got=type(share).__name__, **seen)
    for sample in share:
        if sample not in batch:
            raise Wrong("foreign", case, got=sample, **seen)
    return list(share)


def _look_at(shares: list[list[str]], batch: list[str], case: str) -> None:
    """Raise the mistake that the shares of all ranks show, if any."""
    n, size = len(shares), len(batch)
    sizes = [len(share) for share in shares]
    seen: dict[str, Any] = {"world_size": n, "size": size, "sizes": _and(sizes)}
    if [] in shares:
        seen["empty"] = shares.index([])
    if n > 1 and all(sorted(share) == sorted(batch) for share in shares):
        raise Wrong("whole_batch", case, **seen)
    if n > 1 and shares[0] and all(share == shares[0] for share in shares):
        raise Wrong("same_share", case, got=_and(shares[0]), **seen)
    missing = [sample for sample in batch if not any(sample in share for share in shares)]
    seen["missing"] = _and(missing)
    _look_for_a_sample_taken_twice(shares, case)
    uneven = max(sizes) - min(sizes) > 1
    if (missing or uneven) and n > 1 and shares[:2] == [batch[:n], batch[n : 2 * n]]:
        raise Wrong("pieces_of_n", case, **seen)
    if missing:
        raise Wrong(_why_missing(shares, batch, missing), case, **seen)
    if uneven:
        raise Wrong("tail_heap", case, **seen)


def _why_missing(shares: list[list[str]], batch: list[str], missing: list[str]) -> str:
    n = len(shares)
    if len(batch) % n == 0 and any(shares) and [] in (shares[0], shares[-1]):
        return "from_one"
    return "tail_dropped" if len(missing) == len(batch) % n else "missing"


def _look_for_a_sample_taken_twice(shares: list[list[str]], case: str) -> None:
    owner: dict[str, int] = {}
    for rank, share in enumerate(shares):
        for sample in share:
            if sample in owner:
                raise Wrong("overlap", case, sample=sample, first=owner[sample], second=rank)
            owner[sample] = rank


def _and(things: list[Any]) -> str:
    words = [str(thing) for thing in things]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def check_everyones_sum(student: Callable[..., Any]) -> Passed:
    """Run the function on 1, 3 and 4 real ranks; on the last two also with an empty rank.

    Rank r holds 10**r, r + 1 times, so that the sum of three ranks reads 321: a digit says how
    often a rank was heard.
    """
    painted, uneven = _case("rank r holds 10**r, r + 1 times", _painted), _case(EMPTY, _uneven)
    plan = [(n, [painted, uneven] if n > 1 else [painted]) for n in RANKS]
    examine(student, plan, _mistake)
    return Passed(note=f"Every rank has the sum, on {_and(list(RANKS))} ranks.")


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
        return Wrong("local", case, got=_and([number(value) for value in got]), **facts)
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
    "my_share": Exercise(check=check_my_share, reference=my_share, minutes=6),
    "everyones_sum": Exercise(check=check_everyones_sum, reference=everyones_sum, minutes=9),
}
