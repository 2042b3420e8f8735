"""What a check says of the right result in another type, and of one that is nearly right.

Mutants change the text of a solution; here its result is changed, whatever the text is. Only
exercises that run in one process are tried.
"""

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from dtlib.learn import ladder, source
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.verdicts import NotJudged, Wrong, sentence
from mutation.trial import key_of

Change = Callable[[Any], Any]


class Said(NamedTuple):
    """A change of the result, whether it stays right, and what the check said."""

    change: str
    right: bool
    key: str
    words: str


def numbers(change: Change) -> Change:
    """A change of every number in a result made of lists, tuples and dicts."""

    def changed(value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(map(changed, value))
        if type(value) is dict:
            return {key: changed(item) for key, item in value.items()}
        return change(value) if type(value) in (int, float) else value

    return changed


def rows(change: Change) -> Change:
    """A change of a result that is a list or a tuple with items."""
    return lambda value: change(value) if type(value) in (list, tuple) and value else value


def other_rows(value: Any) -> Any:
    """Lists for tuples and tuples for lists."""
    kinds = {list: tuple, tuple: list}
    return kinds[type(value)](map(other_rows, value)) if type(value) in kinds else value


def as_array(value: Any) -> Any:
    """An array in place of a row of numbers."""
    return np.array(value) if all(type(one) in (int, float) for one in value) else value


def finite(change: Change) -> Change:
    """A change that leaves nan and infinity as they are."""
    return lambda x: change(x) if math.isfinite(x) else x


THREE = "three decimals"
RIGHT: dict[str, Change] = {
    "numbers of NumPy": numbers(lambda x: np.float64(x) if type(x) is float else np.int64(x)),
    "float32 for float": numbers(lambda x: np.float32(x) if type(x) is float else x),
    "tensors for numbers": numbers(lambda x: torch.tensor(x, dtype=torch.float64)),
    "lists for tuples": other_rows,
    "an array": rows(as_array),
}
WRONG: dict[str, Change] = {
    "whole numbers": numbers(finite(math.trunc)),
    "two digits": numbers(lambda x: float(f"{x:.2g}")),
    THREE: numbers(lambda x: round(x, 3)),
    "bf16": numbers(lambda x: torch.tensor(x, dtype=torch.bfloat16).item()),
    "nan": numbers(lambda x: math.nan),
    "all but the last": rows(lambda value: value[:-1]),
    "the other way round": rows(lambda value: value[::-1]),
    "the last twice": rows(lambda value: value + value[-1:]),
}


def tried(number: str, exercise: str) -> Iterator[Said]:
    """What the check of an exercise says of each change that changes the solution's result."""
    lesson = source.find(number)
    check: Any = ladder.find_exercise(lesson, exercise)
    if isinstance(check, RankAnswer):
        return
    for right, changes in ((True, RIGHT), (False, WRONG)):
        for name, change in changes.items():
            answer, did = changing(check.reference, change, right)
            try:
                verdict = ladder.judge(lesson, exercise, check, answer)
            except NotJudged:
                verdict = Wrong("not_judged")
            if not did and name == THREE and seen(check):
                yield Said(f"{name}, which no case shows", right, "passed", "")
            if did:
                told = isinstance(verdict, Wrong) and verdict.mistake != "not_judged"
                words = sentence(lesson.sidecar, exercise, verdict) if told else ""
                yield Said(name, right, key_of(verdict), words)


def seen(check: Any) -> bool:
    """Whether a result of the solution has a number that is not whole."""
    found: list[bool] = []
    look = numbers(lambda x: found.append(math.isfinite(x) and x != round(x)) or x)
    with contextlib.suppress(Wrong):
        check.check(functools.wraps(check.reference)(lambda *given: look(check.reference(*given))))
    return any(found)


def changing(solution: Any, change: Change, right: bool) -> tuple[Any, list[Any]]:
    """The solution with its result changed, and a list that fills when that makes a difference."""
    did: list[Any] = []

    @functools.wraps(solution)
    def answer(*given: Any, **named: Any) -> Any:
        result = solution(*given, **named)
        changed = change(copy.copy(result))
        if repr(changed) != repr(result) and (right or _differ(changed, result)):
            did.append(changed)
        return changed

    return answer, did


def _differ(one: Any, other: Any) -> bool:
    """Whether two results are unequal: 8.0 is 8."""
    try:
        return bool(one != other)
    except (TypeError, ValueError, RuntimeError):
        return True


def faults(found: list[Said]) -> list[str]:
    """The lines to look at: right and refused, wrong and accepted."""
    return [
        f"   {'RIGHT, REFUSED' if one.right else 'WRONG, ACCEPTED'}  {one.change}"
        + (f" [{one.key}] {one.words}" if one.right else "")
        for one in found
        if one.right != (one.key == "passed")
    ]
