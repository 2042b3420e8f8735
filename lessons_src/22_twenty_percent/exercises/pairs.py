"""Exercise 22.1: how many times the throughput, from pairs of turns, and between which ends."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

Turns = list[float]
MOST = 100  # values that are taken from an answer that never ends
# Seconds before and after, the first pair while both warm up. In the second case the machine is
# slow in some pairs, for both, so that every shortcut has a number of its own.
CASES: tuple[tuple[Turns, Turns], ...] = (
    ([9.0, 5.0], [3.0, 4.0]),
    ([40.0, 3.2, 5.0, 4.5, 11.0, 10.0], [10.0, 2.0, 4.0, 5.0, 10.0, 5.0]),
    ([1.0, 6.0, 2.0, 3.0, 2.0], [8.0, 4.0, 4.0, 4.0, 2.0]),
)


def reference(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float]:
    """Compare within each pair, leave the first out, and tell the middle and both ends."""
    ratios = sorted(b / a for b, a in zip(before[1:], after[1:], strict=True))
    return statistics.median(ratios), ratios[0], ratios[-1]


def check(student: Callable[..., Any]) -> Passed:
    """One pair, five on a machine that others use, and four of which most lose."""
    for before, after in CASES:
        case = f"before {_show(before)}, after {_show(after)}"
        got, want = _ask(student, before, after, case), reference(before, after)
        if not all(map(_near, got, want)):
            facts = {"got": number(got[0]), "want": number(want[0]), "pairs": len(before) - 1}
            facts |= {"low": number(got[1]), "high": number(got[2])}
            facts |= {"right_low": number(want[1]), "right_high": number(want[2])}
            raise Wrong(_key(before, after, got, want), case, **facts)
    middle, low, high = reference(*CASES[1])
    shown = _ask(student, *CASES[1], "")
    return Passed((("gain of five pairs", number(shown[0]), number(middle), "times"),
                   ("its ends", _show(shown[1:]), _show((low, high)), "times")))  # fmt: skip


def _ask(student: Callable[..., Any], before: Turns, after: Turns, case: str) -> list[float]:
    mine = list(before), list(after)
    got = ask(student, *mine, case=case)
    if got is None:
        raise Wrong("none", case)
    if mine != (before, after):
        raise Wrong("changed", case)
    if isinstance(got, (int, float)) and not isinstance(got, bool):
        raise Wrong("one_number", case, got=number(to_number(got, case, nan=True)))
    if isinstance(got, Iterator):
        source = got
        got = ask(lambda: list(itertools.islice(source, MOST)), case=case)
    try:
        values = [to_number(value, case) for value in got]
    except (TypeError, ValueError, Wrong):
        raise Wrong("not_three", case, got=repr(got)[:40]) from None
    if len(values) != 3:
        raise Wrong("not_three", case, got=f"{len(values)} number{'s' * (len(values) != 1)}")
    return values


def _key(before: Turns, after: Turns, got: list[float], want: Sequence[float]) -> str:
    if not _near(got[0], want[0]):
        known = _middles(before, after)
        return next((key for key, value in known if _near(got[0], value)), "gain")
    if _near(got[1], want[2]) and _near(got[2], want[1]):
        return "swapped"
    ratios = [b / a for b, a in zip(before, after, strict=True)]
    if _near(got[1], min(ratios)) and _near(got[2], max(ratios)):
        return "warm_ends"
    b, a = before[1:], after[1:]
    if _near(got[1], min(b) / max(a)) and _near(got[2], max(b) / min(a)):
        return "crossed_ends"
    return "ends"


def _middles(before: Turns, after: Turns) -> list[tuple[str, float]]:
    """What each mistake makes of the turns; the first that fits is named."""
    b, a = before[1:], after[1:]
    ratios = [x / y for x, y in zip(b, a, strict=True)]
    middle = statistics.median(ratios)
    with_warm = [x / y for x, y in zip(before, after, strict=True)]
    saved = statistics.median(1 - y / x for x, y in zip(b, a, strict=True))
    in_order = statistics.median(x / y for x, y in zip(sorted(b), sorted(a), strict=True))
    return [
        ("middle", sorted(ratios)[len(ratios) // 2]),
        ("middle", sorted(ratios)[(len(ratios) - 1) // 2]),
        ("upside_down", 1 / middle),
        ("upside_down", statistics.median(y / x for x, y in zip(b, a, strict=True))),
        ("saved", saved),
        ("saved", 1 + saved),
        ("excess", middle - 1),
        ("percent", 100 * (middle - 1)),
        ("percent", 100 * middle),
        ("warm_up", statistics.median(with_warm)),
        ("warm_up", statistics.mean(with_warm)),
        ("unpaired", statistics.median(b) / statistics.median(a)),
        ("totals", sum(b) / sum(a)),
        ("best_of", min(b) / min(a)),
        ("best_pair", max(ratios)),
        ("sorted", in_order),
        ("mean", statistics.mean(ratios)),
        ("unsorted", ratios[len(ratios) // 2]),
        ("difference", statistics.median(x - y for x, y in zip(b, a, strict=True))),
        ("warm_unpaired", statistics.median(before) / statistics.median(after)),
        ("warm_unpaired", sum(before) / sum(after)),
    ]


def _show(values: Sequence[float]) -> str:
    return ", ".join(map(number, values))


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 1e-6
