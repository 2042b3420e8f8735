"""Exercise 7.1: the mean over everybody's values, where one rank may have none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number, numbers

Lists = tuple[tuple[float, ...], ...]
# The painted case: local means 0, 2 and 8, sum 36, six values, mean 6: each mistake has a number
# of its own.
PAINTED: Lists = ((), (1, 3), (5, 7, 9, 11))
PLAN: tuple[Lists, ...] = (
    ((4,),),
    PAINTED,
    ((3,), (1, 1, 1, 1, 2), ()),
    ((1,), (2, 4), (), (3, 3, 10, 11)),
)
WORDS = {2: "two", 3: "three", 4: "four"}


def reference(values: torch.Tensor) -> float:
    """The mean over the values of all ranks: the sum and the count travel together."""
    sum_and_count = torch.tensor([values.sum(), float(len(values))])
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count.tolist()
    return total / count


def check(student: Callable[[torch.Tensor], Any]) -> Passed:
    """Run the student's function on 1, 3, 3 and 4 ranks' values."""
    plan = []
    for n in (1, 3, 4):
        plan.append((n, [_case(lists) for lists in PLAN if len(lists) == n]))
    rounds = examine(student, plan, explain)
    last = rounds[-1].ranks[0]
    given = sum(m.bytes for m in last.messages)
    return Passed(
        (
            ("calls of a collective", len(last.collectives), 1, ""),
            ("bytes given to it by rank 0 of 4", given, 8, "bytes"),
        ),
        f"The slowest of 4 ranks took {max(s.seconds for s in rounds[-1].ranks) * 1e3:.1f} ms.",
    )


def _case(lists: Lists) -> Case:
    everyone = [v for values in lists for v in values]
    return Case(
        "values " + ", ".join(_text(values) for values in lists),
        make=lambda rank, n: torch.tensor(lists[rank], dtype=torch.float32),
        want=lambda rank, n: torch.tensor(sum(everyone) / len(everyone)),
        tolerance=1e-5,
    )


def _text(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(number(v) for v in values) + "]"


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by what came back on which rank."""
    n = round_.n
    lists = tuple(tuple(round_.case.make(rank, n).tolist()) for rank in range(n))
    if round_.failures:
        return _left_the_meeting(round_, lists)
    got = round_.first_values
    if all(seen.kind == "none" and seen.collectives for seen in round_.ranks):
        name = round_.ranks[0].collectives[-1]
        return Wrong("in_place", round_.label, call=name)
    if any(v is None for v in got):
        return None
    values = [float(v) for v in got if v is not None]
    if all(math.isnan(v) for v in values) or (math.isnan(values[0]) and not lists[0]):
        return _nan(round_, lists, values)
    if max(values) - min(values) < 1e-4 * max(map(abs, values)):
        return _all_agree(round_, lists, values[0])
    return _they_differ(round_, lists, values)


def _left_the_meeting(round_: Round, lists: Lists) -> Wrong | None:
    most = max(len(s.collectives) for s in round_.ranks)
    absent = [s.rank for s in round_.ranks if s.failure is None and len(s.collectives) < most]
    waiting = [s.rank for s in round_.ranks if s.failure and not s.failure.own]
    if not absent or not waiting or lists[absent[0]]:
        return None
    call = next(s.collectives[-1] for s in round_.ranks if len(s.collectives) == most)
    return Wrong("left_early", round_.label, rank=absent[0], call=call, waiting=_ranks(waiting))


def _ranks(which: list[int]) -> str:
    head = ", ".join(map(str, which[:-1]))
    return f"ranks {head} and {which[-1]}" if head else f"rank {which[-1]}"


def _nan(round_: Round, lists: Lists, values: list[float]) -> Wrong | None:
    empty = [r for r, own in enumerate(lists) if not own]
    if not empty:
        return None
    who = "All ranks" if all(map(math.isnan, values)) else f"Rank {empty[0]}"
    return Wrong("nan", round_.label, who=who, rank=empty[0])


def _all_agree(round_: Round, lists: Lists, got: float) -> Wrong | None:
    total, count, n = sum(map(sum, lists)), sum(map(len, lists)), len(lists)
    means = [sum(own) / len(own) if own else 0.0 for own in lists]
    with_values = [m for m, own in zip(means, lists, strict=True) if own]
    biggest = max(range(n), key=lambda r: len(lists[r]))
    weight = {"big": biggest, "have": len(lists[biggest]), "count": count, "got": number(got)}
    if _near(got, sum(means) / n):
        words = f"the {WORDS.get(n, n)} ranks' own means {_and(means)}"
        return Wrong("mean_of_means", round_.label, which=words, **weight)
    if _near(got, sum(with_values) / len(with_values)):
        words = f"the own means {_and(with_values)} of the ranks that have any"
        return Wrong("mean_of_means", round_.label, which=words, **weight)
    if _near(got, total / n):
        return Wrong("by_ranks", round_.label, total=number(total), n=n, count=count)
    if _near(got, total):
        return Wrong("sum_only", round_.label, total=number(total), count=count)
    return None


def _they_differ(round_: Round, lists: Lists, values: list[float]) -> Wrong | None:
    total, count = sum(map(sum, lists)), sum(map(len, lists))
    pairs = list(zip(values, lists, strict=True))
    if all(_near(v, total / len(own)) for v, own in pairs if own):
        return Wrong("by_own_count", round_.label, got=numbers(values), total=number(total))
    if all(_near(v, sum(own) / len(own)) for v, own in pairs if own):
        return Wrong("stayed_home", round_.label, got=numbers(values))
    right = [r for r, v in enumerate(values) if _near(v, total / count)]
    wrong = [r for r, v in enumerate(values) if not _near(v, total / count)]
    if right and "reduce" in round_.ranks[0].collectives:
        return Wrong(
            "reduce",
            round_.label,
            rank=wrong[0],
            got=number(values[wrong[0]]),
            root=right[0],
            want=number(values[right[0]]),
        )
    return None


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-4 * max(1.0, abs(b))


def _and(values: list[float]) -> str:
    texts = [number(v) for v in values]
    return ", ".join(texts[:-1]) + " and " + texts[-1] if len(texts) > 1 else texts[0]
