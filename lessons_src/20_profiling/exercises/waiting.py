"""Exercise 20.4: how long each rank stood in its collectives before the last one came."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

Begins = list[list[float]]
MOST = 100  # values that are taken from an answer that is a generator
# Rows are ranks, columns collectives: when the rank came to it.
CASES: tuple[Begins, ...] = (
    [[3.0, 7.0]],
    [[1.0], [4.0], [2.0]],
    [[1.0, 12.0, 20.0], [4.0, 10.0, 26.0], [2.0, 11.0, 21.0]],
    [[5.0, 8.0], [5.0, 9.0], [1.0, 4.0], [5.0, 9.0]],
)


def reference(begins: Sequence[Sequence[float]]) -> list[float]:
    """For every collective the last to come sets the time; the others wait for it."""
    latest = [max(column) for column in zip(*begins, strict=True)]
    return [sum(last - own for last, own in zip(latest, rank, strict=True)) for rank in begins]


def check(student: Callable[..., Any]) -> Passed:
    """Compare the waiting of 1, 3 and 4 ranks."""
    for begins in CASES:
        case = "; ".join(f"rank {r} at {_show(row)}" for r, row in enumerate(begins))
        got, want = _ask(student, begins, case), reference(begins)
        if any(abs(a - b) > 1e-6 for a, b in zip(got, want, strict=True)):
            facts = {"got": _show(got), "want": _show(want), "n": len(begins)}
            raise Wrong(_key(begins, got), case, **facts)
    return Passed((("waited, 4 ranks", _show(got), _show(want), "s"),))


def _ask(student: Callable[..., Any], begins: Begins, case: str) -> list[float]:
    mine = copy.deepcopy(begins)
    got = ask(student, mine, case=case)
    if got is None:
        raise Wrong("none", case)
    if isinstance(got, Iterator):  # the answer is still to be worked out, for ever perhaps
        source = got
        got = ask(lambda: list(itertools.islice(source, MOST)), case=case)
    try:
        values = [to_number(value, case) for value in got]
    except (TypeError, ValueError, Wrong):
        raise Wrong("not_a_list", case, got=repr(got)[:40], n=len(begins)) from None
    if len(values) != len(begins):
        columns = len(begins[0])
        raise Wrong("per_collective" if len(values) == columns else "length", case,
                    got=len(values), n=len(begins))  # fmt: skip
    return values


def _key(begins: Begins, got: list[float]) -> str:
    latest = [max(column) for column in zip(*begins, strict=True)]
    first = [min(column) for column in zip(*begins, strict=True)]
    waits = [[last - own for last, own in zip(latest, rank, strict=True)] for rank in begins]
    known = {
        "late": [sum(own - one for own, one in zip(rank, first, strict=True)) for rank in begins],
        "negative": [-sum(rank) for rank in waits],
        "one_collective": [rank[0] for rank in waits],
        "last_collective": [rank[-1] for rank in waits],
        "mean": [sum(rank) / len(rank) for rank in waits],
        "longest": [max(rank) for rank in waits],
        "one_latest": [sum(max(latest) - own for own in rank) for rank in begins],
    }
    known["same_rank"] = _behind_one(begins)
    for key, values in known.items():
        if all(abs(a - b) < 1e-6 for a, b in zip(got, values, strict=True)):
            return "one_collective" if key == "last_collective" else key
    return "waited"


def _behind_one(begins: Begins) -> list[float]:
    """What comes of taking one rank for the last in every collective."""
    slowest = max(begins, key=sum)
    return [sum(last - own for last, own in zip(slowest, rank, strict=True)) for rank in begins]


def _show(values: Sequence[float]) -> str:
    return ", ".join(map(number, values))
