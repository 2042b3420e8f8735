"""Exercise 16.2b: the norm of a gradient of which every rank holds a part.

The parts are chosen so that all norms are whole numbers: 3, 4 and 12 make 13.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number, numbers

from ..elements import elements_sent

Shards = tuple[tuple[float, ...], ...]
PLAN: tuple[Shards, ...] = (
    ((3, -4),),
    ((3, 0), (0, 4), (0, 12)),
    ((2, 0), (0, 4), (5, 0), (0, -6)),
    ((2,), (-3,), (6,), ()),
)


class Changed(Exception):
    """The shard is not what it was; the text says what is in it."""


def reference(shard: torch.Tensor) -> torch.Tensor:
    """One number travels: the sum of the squares."""
    squares = shard.square().sum()
    dist.all_reduce(squares)
    return squares.sqrt()


def check(student: Callable[..., Any]) -> Passed:
    """Ask 1, 3 and 4 ranks for the norm of their common gradient."""
    for n in (1, 3, 4):
        cases = [_case(shards) for shards in PLAN if len(shards) == n]
        rounds = examine(functools.partial(_on_rank, student), [(n, cases)], explain)
        for round_ in rounds:
            _sent(round_)
    got = rounds[-1].ranks[0].values[0]
    return Passed(((f"norm of {_case(PLAN[-1]).label}", number(got), 7, ""),))


def _case(shards: Shards) -> Case:
    words = ", ".join(f"({', '.join(map(number, own))})" for own in shards)
    return Case(
        f"shards {words}",
        make=lambda rank, n: torch.tensor(shards[rank], dtype=torch.float32),
        want=lambda rank, n: torch.tensor(math.hypot(*[v for own in shards for v in own])),
        tolerance=1e-5,
    )


def _on_rank(student: Callable[..., Any], shard: torch.Tensor) -> Any:
    before = shard.clone()
    result = student(shard)
    # A norm of something else is told by its value; only a right one may have spoilt the shard.
    if result is not None and not torch.equal(shard, before):
        raise Changed(numbers(shard.tolist()))
    return result


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by the number that it gives."""
    changed = [(rank, f) for rank, f in round_.failures if f.error == "Changed"]
    shards = [round_.case.make(rank, round_.n).tolist() for rank in range(round_.n)]
    if changed:
        rank, failure = changed[0]
        facts = {"rank": rank, "got": failure.message, "was": numbers(shards[rank])}
        return Wrong("changed", round_.label, **facts)
    if round_.failures:
        return None
    if all(seen.kind == "none" and seen.collectives for seen in round_.ranks):
        return Wrong("in_place", round_.label, call=round_.ranks[0].collectives[-1])
    if any(len(seen.values) != 1 for seen in round_.ranks):
        return None
    values = [seen.values[0] for seen in round_.ranks]
    norms = [math.hypot(*own) for own in shards]
    facts = {"got": numbers(values), "n": round_.n, "norms": _sum_of(norms)}
    facts |= {"want": number(math.hypot(*norms)), "squares": number(sum(x**2 for x in norms))}
    if round_.n > 1 and all(map(_near, values, norms)):
        return Wrong("own", round_.label, first=number(norms[0]), second=number(norms[1]), **facts)
    for key, wrong in _candidates(norms, shards):
        if all(_near(v, wrong) for v in values):
            return Wrong(key, round_.label, **facts)
    right = [rank for rank, v in enumerate(values) if _near(v, math.hypot(*norms))]
    wrong_ones = [rank for rank in range(round_.n) if rank not in right]
    if right and "reduce" in round_.ranks[0].collectives:
        facts |= {"rank": wrong_ones[0], "root": right[0], "got": number(values[wrong_ones[0]])}
        return Wrong("reduce", round_.label, **facts)
    return None


def _candidates(norms: list[float], shards: list[list[float]]) -> list[tuple[str, float]]:
    n, squares = len(norms), sum(x**2 for x in norms)
    found = [
        ("added", sum(norms)),
        ("no_root", squares),
        ("mean_of_norms", sum(norms) / n),
        ("mean_of_squares", math.sqrt(squares / n)),
        ("largest", max(norms)),
        ("signed", abs(sum(v for own in shards for v in own))),
    ]
    return [(key, value) for key, value in found if not _near(value, math.sqrt(squares))]


def _sum_of(norms: list[float]) -> str:
    return " + ".join(number(x) for x in norms)


def _sent(round_: Round) -> None:
    """A number of each rank is enough."""
    if round_.n == 1:
        return
    for seen in round_.ranks:
        got = elements_sent(seen.messages, round_.n)
        if got > round_.n - 1:  # an all-gather of one number each, at the most
            given = sum(m.elements for m in seen.messages)
            raise Wrong("whole_gradient", round_.label, given=given, rank=seen.rank, n=round_.n)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-4 * max(1.0, abs(b))
