"""Exercise 8.3: parameters into buckets. It runs in a process of its own: its loop may not end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from dtlib.learn.checking import Passed, Wrong, stopped
from dtlib.ranks.launcher import run_ranks
from dtlib.scratch.data_parallel import assign_buckets as reference

__all__ = ["check", "reference"]

LIMIT = 3.0  # seconds for all cases of an answer; a right one needs milliseconds
# What the parameters are called and how many numbers they hold, in the order of registration.
SMALL = (("0.weight", 6), ("0.bias", 2))
CHAIN = (("0.weight", 10), ("0.bias", 5), ("1.weight", 5), ("2.weight", 5), ("2.bias", 5))
LARGE = (("0.weight", 5), ("emb.weight", 30), ("2.weight", 5))
TYPES = (("0.weight", 4), ("norm.weight", 4), ("2.weight", 4))
# Label, parameters, cap in bytes, which of them are bf16.
CASES: tuple[tuple[str, tuple[tuple[str, int], ...], int, tuple[int, ...]], ...] = (
    ("one layer of 24 and 8 bytes, cap 100", SMALL, 100, ()),
    ("40, 20, 20, 20 and 20 bytes, cap 40", CHAIN, 40, ()),
    ("40, 20, 20, 20 and 20 bytes, cap 50", CHAIN, 50, ()),
    ("20, 120 and 20 bytes, cap 40", LARGE, 40, ()),
    ("the last of 20, 20 and 120 bytes, cap 40", (*LARGE[::2], LARGE[1]), 40, ()),
    ("16 bytes, 8 in bf16, 16 bytes, cap 100", TYPES, 100, (1,)),
)
Buckets = list[list[int]]


class NotBuckets(Exception):
    """What came back is no list of lists of the parameters; the text says what it is."""


def check(student: Callable[..., Any]) -> Passed:
    """Cut small lists of parameters, and look at the outcome: any right cut will do."""
    found = _run(student, range(len(CASES)))
    if found is None:  # it did not end: case by case, to say where
        for k in range(len(CASES)):
            if _run(student, [k]) is None:
                raise _endless(k)
        found = []
    for k, answer in enumerate(found):
        if isinstance(answer, Wrong):
            raise answer
        wrong = judge(k, answer)
        if wrong is not None:
            raise wrong
    return Passed((("buckets for 40, 20, 20, 20 and 20 bytes, cap 40", len(found[1]), 3, ""),))


def _run(student: Callable[..., Any], which: Sequence[int]) -> list[Any] | None:
    """The answers in a process of its own, or None when it did not end."""
    outcome = run_ranks(
        _on_rank, (student, list(which)), ranks=1, limit=LIMIT, device="cpu", show=False
    )[0]
    if outcome.status == "timeout":
        return None
    if outcome.status != "ok":
        raise stopped(outcome.error or outcome.status, outcome.message or "", "your function")
    answers: list[Any] = []
    for answer in outcome.value:
        if isinstance(answer, tuple):
            key, *facts = answer
            k = which[len(answers)]
            if key == "raised":
                answers.append(stopped(facts[0], facts[1], facts[2], CASES[k][0]))
            else:
                answers.append(Wrong("kind", CASES[k][0], got=facts[0]))
        else:
            answers.append(answer)
    return answers


def _on_rank(student: Callable[..., Any], which: list[int]) -> list[Any]:
    from dtlib.learn.checking import innermost, place_in_words

    answers: list[Any] = []
    for k in which:
        _, sizes, cap, half = CASES[k]
        params = [
            nn.Parameter(torch.zeros(n, dtype=torch.bfloat16 if i in half else torch.float32))
            for i, (_, n) in enumerate(sizes)
        ]
        number = {id(p): i for i, p in enumerate(params)}
        try:
            answers.append(_indices(student(list(params), cap), number))
        except NotBuckets as error:
            answers.append(("kind", str(error)))
        except Exception as error:
            frame = innermost(error)
            place = place_in_words(frame.name, frame.lineno or 0, "")
            answers.append(("raised", type(error).__name__, str(error), place))
        if isinstance(answers[-1], tuple):
            break
    return answers


def _indices(answer: Any, number: dict[int, int]) -> Buckets:
    if not isinstance(answer, (list, tuple)):
        raise NotBuckets(f"a {type(answer).__name__}")
    found: Buckets = []
    for bucket in answer:
        if not isinstance(bucket, (list, tuple)):
            raise NotBuckets(f"a list with a {type(bucket).__name__} in it")
        if any(id(p) not in number for p in bucket):
            raise NotBuckets("a list of lists that hold other things than the parameters")
        found.append([number[id(p)] for p in bucket])
    return found


def _endless(k: int) -> Wrong:
    label, sizes, cap, _ = CASES[k]
    name, count = max(sizes, key=lambda pair: pair[1])
    if 4 * count > cap:
        return Wrong("endless", label, name=name, size=4 * count, cap=cap)
    return Wrong("loops", label, rank=0, n=1, place="in its own loop")


def judge(k: int, buckets: Buckets) -> Wrong | None:
    """Recognise a mistake by what the buckets hold."""
    label, sizes, cap, half = CASES[k]
    names = [name for name, _ in sizes]
    size = [n * (2 if i in half else 4) for i, (_, n) in enumerate(sizes)]
    held = [i for bucket in buckets for i in bucket]
    missing = [i for i in range(len(sizes)) if i not in held]
    if [] in buckets:
        return Wrong("empty", label, bucket=buckets.index([]), count=len(buckets))
    if missing:
        what = ", ".join(names[i] for i in missing)
        if all(size[i] > cap for i in missing):
            return Wrong("too_large", label, name=what, size=size[missing[0]], cap=cap)
        return Wrong("lost", label, what=what, those="are" if len(missing) > 1 else "is")
    twice = next((i for i in held if held.count(i) > 1), None)
    if twice is not None:
        return Wrong("twice", label, name=names[twice])
    for b, bucket in enumerate(buckets):
        wrong = _one_bucket(label, b, [size[i] for i in bucket], cap)
        if wrong is None and len({i in half for i in bucket}) > 1:
            wrong = Wrong("dtypes", label, bucket=b)
        if wrong is not None:
            return wrong
    return _between(label, buckets, names, size, cap, half)


def _one_bucket(label: str, b: int, sizes: list[int], cap: int) -> Wrong | None:
    total = sum(sizes)
    if total <= cap or len(sizes) == 1:
        return None
    facts = {"bucket": b, "total": total, "cap": cap}
    if total // 4 <= cap and total - sizes[-1] >= cap:  # only a count of numbers allows that
        return Wrong("elements", label, **facts)
    return Wrong("over", label, last=sizes[-1], before=total - sizes[-1], **facts)


def _between(
    label: str, buckets: Buckets, names: list[str], size: list[int], cap: int, half: tuple[int, ...]
) -> Wrong | None:
    """The order of the buckets, and whether one was closed that had room."""
    for b, (one, next_) in enumerate(pairwise(buckets)):
        if (one[0] in half) != (next_[0] in half):
            continue
        if min(one) < max(next_):
            return Wrong("order", label, bucket=b, name=names[min(one)], later=names[max(next_)])
        total, joins = sum(size[i] for i in one), size[max(next_)]
        if total + joins <= cap:
            return Wrong("early", label, bucket=b, total=total, joins=joins, cap=cap)
    return None
