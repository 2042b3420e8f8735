"""Turn what the ranks saw into one sentence; every check on ranks uses this.

A lesson's check supplies the mistakes that it recognises. Any other wrong answer still gets a true
sentence here: which rank returned what, and what was expected, in the smallest case.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dtlib.learn.alike import alike, shortened
from dtlib.learn.readers import told_apart
from dtlib.learn.reports import NOBODY_CAME, OWN_CODE
from dtlib.learn.rounds import Failure, Round, Seen
from dtlib.learn.verdicts import Wrong, place_in_words, stopped


def unforeseen(round_: Round) -> Wrong:
    """The verdict on a mistake that the lesson's check does not recognise."""
    case = round_.label
    busy = [(rank, f.code) for rank, f in round_.failures if f.waited_in == OWN_CODE]
    if busy:
        # Of several, name the one that runs: the others wait for it, some in the check itself.
        rank, place = min(busy, key=lambda b: ("(rank_runs.py" in b[1], b[1].startswith("waiting")))
        if place.startswith("waiting"):  # nothing runs: all wait for one another
            who = ", ".join(f"rank {rank} was {place}" for rank, place in busy)
            return Wrong("waits", case, n=round_.n, who=who)
        return Wrong("loops", case, rank=rank, n=round_.n, place=place)
    for rank, failure in round_.failures:
        if failure.lost and failure.own:
            return Wrong("died", case, rank=rank, n=round_.n, how=failure.message or failure.error)
    for rank, failure in round_.failures:
        if failure.own:
            return raised(failure, rank, round_)
    if any(failure.mismatch for _, failure in round_.failures):
        return Wrong("mismatch", case, n=round_.n, what=mismatch(round_))
    if round_.failures:
        return Wrong("waits", case, n=round_.n, who=who_waits(round_))
    return _wrong_value(round_)


def raised(failure: Failure, rank: int, round_: Round) -> Wrong:
    """The verdict on an exception on one rank: its line, error and message."""
    # Only this process knows the text of a notebook's cell.
    code = linecache.getline(failure.code, failure.line).strip()
    whose = f" on rank {rank} of {round_.n}" if round_.n > 1 else ""
    place = place_in_words(failure.function, failure.line, code, whose)
    return stopped(failure.error, failure.message, place, round_.label)


def mismatch(round_: Round) -> str:
    """What ranks passed to one collective: `rank 0 passed [2] float to ALLGATHER; rank 1 ...`."""
    parts = []
    for rank, failure in round_.failures:
        found = re.search(
            rf"Rank {rank} is running collective: CollectiveFingerPrint\(.*?OpType=(\w+)"
            r"(?:, TensorShape=(\[[^\]]*\]))?(?:, TensorDtypes=(\w+))?",
            failure.message,
        )
        if found:
            shape, kind = found[2] or "no tensor", (found[3] or "").lower()
            parts.append(f"rank {rank} passed {shape} {kind} to {found[1]}".replace("  ", " "))
    return "; ".join(dict.fromkeys(parts))


def who_waits(round_: Round) -> str:
    """What every rank was doing when the time-out ended the hang."""
    return ", ".join(f"rank {s.rank} {_doing(s)}" for s in round_.ranks)


def _doing(seen: Seen) -> str:
    if seen.failure is None:
        return "had returned"
    line = f" (line {seen.failure.line})" if seen.failure.line else ""
    if seen.failure.waited_in is None:
        last = f" in {seen.messages[-1].kind}{line}" if seen.messages else ""
        return f"had stopped with {seen.failure.error}" if seen.failure.own else f"waited{last}"
    what = seen.failure.waited_in
    if what == "a collective" and seen.collectives:
        what = seen.collectives[-1]
    word = "for" if what == NOBODY_CAME else "in"
    return f"waited {word} {what}{line}"


def _wrong_value(round_: Round) -> Wrong:
    seen = next(s for s in round_.ranks if not s.right)
    facts = {"rank": seen.rank, "n": round_.n, "want": _wanted(seen)}
    if seen.kind == "none":
        return Wrong("none", round_.label, **facts)
    if seen.kind not in ("tensor", "number"):
        return Wrong("kind", round_.label, got=seen.kind, **facts)
    if seen.shape != seen.want_shape and seen.want_shape:
        shapes = {"got": list(seen.shape), "shape": list(seen.want_shape)}
        return Wrong("shape", round_.label, **facts | shapes)
    reading = ""
    if _painted(round_) and float(sum(10**r for r in range(round_.n))) in seen.want:
        odd = (v for v in seen.values if v not in seen.want)
        reading = next(filter(None, (read_paint(v, round_.n) for v in odd)), "")
    facts["got"] = contents(seen)
    if facts["got"] == facts["want"] and len(seen.values) == len(seen.want):
        facts["got"], facts["want"] = told_apart([*seen.values], [*seen.want])
    return Wrong("value", round_.label, reading=reading, **facts)


def _painted(round_: Round) -> bool:
    """Whether every rank r was given a tensor filled with 10**r, so that a sum can be read."""
    for seen in round_.ranks:
        given = round_.case.arguments(seen.rank)
        first = given[0] if given else None
        if not isinstance(first, torch.Tensor) or not bool((first == 10**seen.rank).all()):
            return False
    return True


def contents(seen: Seen) -> str:
    """A rank's answer in words; a long one is described by how often each number occurs."""
    return numbers(seen.values) if seen.values else _counted(seen.counts) or "other numbers"


def _wanted(seen: Seen) -> str:
    """The right answer in words, in the same form as `contents`."""
    if seen.want or 0 in seen.want_shape:
        return numbers(seen.want)
    return _counted(seen.want_counts) or "another set of numbers"


def _counted(counts: Mapping[float, int]) -> str:
    most = sorted(counts.items(), key=lambda item: -item[1])[:3]
    return " and ".join(f"{number(value)} ({count:,} times)" for value, count in most)


def number(value: float | None) -> str:
    """A number as a sentence prints it: 6, 3.33, nan."""
    return "nothing" if value is None else f"{value:.4g}" if value % 1 else f"{value:.0f}"


def numbers(values: Sequence[float | None]) -> str:
    """Numbers as a sentence prints them; equal numbers are printed once."""
    if not values:
        return "nothing"
    if len(values) > 1 and len(set(values)) == 1:
        return number(values[0])
    return ", ".join(number(v) for v in values[:12]) + (" …" if len(values) > 12 else "")


def digits(value: float, n: int) -> list[int] | None:
    """How often each rank is in a painted sum; None if the number is not a painted sum."""
    if value != value or value < 0 or value % 1 or value >= 10**n:
        return None
    return [int(value) // 10**rank % 10 for rank in range(n)]


def read_paint(value: float, n: int) -> str:
    """A painted number read aloud: `101: rank 1 is missing.`"""
    counts = digits(value, n)
    if counts is None or n == 1:
        return ""
    if not any(counts):
        return f"{number(value)}: no rank is in it."
    parts = [f"rank {r} is missing" for r, c in enumerate(counts) if c == 0]
    parts += [f"rank {r} is in it {c} times" for r, c in enumerate(counts) if c > 1]
    return f"{number(value)}: {', '.join(parts)}." if parts else ""


def not_waited(seen: Sequence[Seen]) -> dict[str, Any]:
    """A rank that did not wait for a collective that it started, and its name; empty if none."""
    for one in seen if all(s.failure is None for s in seen) else ():
        for message in one.messages:
            if message.peer is None and not message.waited:
                return {"rank": one.rank, "call": message.kind}
    return {}


def nothing_back(seen: Sequence[Seen]) -> bool | dict[str, Any]:
    """If every rank called a collective and returned None, as collectives do: the last call."""
    if not all(s.failure is None and s.kind == "none" and s.collectives for s in seen):
        return False
    return {"call": seen[0].collectives[-1]}


def reduced(got: Sequence[float], seen: Sequence[Seen]) -> bool | dict[str, Any]:
    """If only some ranks are right after a `reduce`: one right and one wrong rank, with values."""
    right = [one.rank for one in seen if one.right]
    wrong = [one.rank for one in seen if not one.right]
    if not right or not wrong or "reduce" not in seen[0].collectives:
        return False
    facts = {"rank": wrong[0], "got": number(got[wrong[0]])}
    return facts | {"root": right[0], "want": number(got[right[0]])}


def cut(got: Sequence[float], want: Sequence[float]) -> bool | dict[str, str]:
    """If some ranks return the right number with fewer decimals, and all others are right: it."""
    pairs = [pair for pair in zip(got, want, strict=True) if not alike(*pair)]
    if not pairs or not all(shortened(*pair) for pair in pairs):
        return False
    mine, right = told_apart(*pairs[0])
    return {"got": mine, "want": right}


def near(a: float, b: float) -> bool:
    """Whether two numbers are the same to a reader."""
    return abs(a - b) <= 1e-4 * max(1.0, abs(b))


def returned(seen: Seen) -> bool:
    """Whether a rank returned something that can be compared."""
    if seen.failure is not None or seen.wrong is not None:
        return False
    numbers = ("tensor", "number")
    if seen.want_kind in numbers:
        return seen.kind in numbers and (seen.shape == seen.want_shape or len(seen.values) == 1)
    return True


def waits_in(seen: Seen, what: str | tuple[str, int] | None) -> bool:
    """Whether a rank waits in the call `what`; with None, whether it does not wait."""
    if what is None or seen.failure is None:
        return what is None and seen.failure is None
    last = seen.messages[-1] if seen.messages else None
    if last is None:
        return False
    called = [last.kind, (last.kind, last.peer), "a collective" if last.peer is None else ""]
    return what in called


def who_left(round_: Round) -> dict[str, Any]:
    """Which ranks wait, in which collective, and which rank had left, for a sentence's names."""
    waiting = [rank for rank, f in round_.failures if not f.own]
    gone = [seen.rank for seen in round_.ranks if seen.failure is None]
    calls = [s.collectives[-1] for s in round_.ranks if s.rank in waiting and s.collectives]
    if not waiting or not gone:
        return {}
    head = ", ".join(map(str, waiting[:-1]))
    who = f"ranks {head} and {waiting[-1]}" if head else f"rank {waiting[-1]}"
    return {"rank": gone[0], "waiting": who, "call": calls[-1] if calls else ""}
