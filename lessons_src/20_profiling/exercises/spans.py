"""Exercises 20.2 and 20.3: time that overlaps counts once; communication that nothing hides."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number
from dtlib.measure.profiling import intervals as spans

Spans = list[tuple[float, float]]

# Each adds one thing: a gap, an overlap, disorder, one inside another, touching, none at all.
BUSY: tuple[Spans, ...] = (
    [(2, 5)],
    [(0, 2), (6, 9)],
    [(0, 4), (3, 6)],
    [(6, 9), (0, 2), (1, 3)],
    [(0, 10), (1, 2), (3, 4), (12, 13)],
    [(0, 2), (2, 3), (2, 3)],
    [],
)
EXPOSED: tuple[tuple[Spans, Spans], ...] = (
    ([(4, 14), (16, 26), (30, 36)], [(0, 7), (20, 24)]),
    ([(2, 5)], []),
    ([(2, 5)], [(6, 9)]),
    ([(0, 4), (3, 8)], [(2, 5)]),
    ([(0, 8)], [(1, 4), (2, 5), (9, 20)]),
    ([(5, 6), (0, 2)], [(0, 9)]),
    ([], [(0, 1)]),
)


def busy(intervals: Sequence[tuple[float, float]]) -> float:
    """Sort, and count only what lies beyond all that was counted before."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def exposed(
    communication: Sequence[tuple[float, float]], compute: Sequence[tuple[float, float]]
) -> float:
    """What both are busy together, less what compute alone is busy."""
    return busy([*communication, *compute]) - busy(compute)


def check_busy(student: Callable[..., Any]) -> Passed:
    """Compare with the union, one case after another."""
    for given in BUSY:
        case = f"intervals {_show(given)}"
        got, want = _ask(student, case, given), spans.length(spans.union(given))
        if not _near(got, want):
            raise Wrong(
                _busy_key(given, got), case, got=number(got), want=number(want), **_sums(given)
            )
    return Passed((("busy of " + _show(BUSY[4]), number(_ask(student, "", BUSY[4])), "11", "s"),))


def _busy_key(given: Spans, got: float) -> str:
    if not given:
        return "empty"
    ends = [end for _, end in given]
    begins = [begin for begin, _ in given]
    if _near(got, sum(end - begin for begin, end in given)):
        return "sum"
    if _near(got, max(ends) - min(begins)):
        return "whole_stretch"
    if _near(got, _neighbours(sorted(given))):
        return "inside"
    if _near(got, _neighbours(given)) or _near(got, _running(given)):
        return "unsorted"
    if _near(got, max(end - begin for begin, end in given)):
        return "longest"
    return "busy"


def _neighbours(given: Spans) -> float:
    """What comes of looking back at the neighbour alone."""
    total = given[0][1] - given[0][0]
    for (_, before), (begin, end) in itertools.pairwise(given):
        total += end - max(begin, before)
    return total


def _running(given: Spans) -> float:
    """What comes of a right sum that takes the intervals as they come."""
    total, reached = 0.0, float("-inf")
    for begin, end in given:
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def check_exposed(student: Callable[..., Any]) -> Passed:
    """Compare with the difference of two unions."""
    for given in EXPOSED:
        case = f"communication {_show(given[0])}, compute {_show(given[1])}"
        first, second = map(spans.union, given)
        got, want = _ask(student, case, *given), spans.length(spans.without(first, second))
        if not _near(got, want):
            facts = {"comm": number(spans.length(first)), "comp": number(spans.length(second))}
            key = _exposed_key(given, got)
            raise Wrong(key, case, got=number(got), want=number(want), **facts)
    shown = number(_ask(student, "", *EXPOSED[0]))
    return Passed((("exposed, the first case", shown, "19", "s"),))


def _exposed_key(given: tuple[Spans, Spans], got: float) -> str:
    first, second = map(spans.union, given)
    pairs = [(a, b) for a in given[0] for b in given[1]]
    shared = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)
    hidden = spans.length(spans.overlap(first, second))
    comm = sum(end - begin for begin, end in given[0])
    ends = [max((end for _, end in side), default=0.0) for side in given]
    known = {
        "hidden": hidden,
        "all_of_it": spans.length(first),
        "swapped": spans.length(spans.without(second, first)),
        "totals": spans.length(first) - spans.length(second),
        "totals_cut": max(0.0, spans.length(first) - spans.length(second)),
        "twice": comm - shared,
        "after_the_end": max(0.0, ends[0] - ends[1]),
    }
    for key, value in known.items():
        if _near(got, value):
            return "totals" if key == "totals_cut" else key
    return "exposed"


def _ask(student: Callable[..., Any], case: str, *given: Spans) -> float:
    mine = copy.deepcopy(given)
    got = ask(student, *mine, case=case)
    if got is None:
        raise Wrong("none", case)
    if repr(mine) != repr(given):
        after = next(m for m, g in zip(mine, given, strict=True) if repr(m) != repr(g))
        try:
            shown = _show(after)
        except (TypeError, ValueError):  # something that is no interval came in
            shown = repr(after)[:60]
        raise Wrong("changed", case, after=shown)
    if isinstance(got, float) and math.isnan(got):
        return got  # refused as any wrong number is, with the sentence of its case
    return to_number(got, case)


def _show(given: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{begin:g}–{end:g}" for begin, end in given) or "none"


def _sums(given: Spans) -> dict[str, str]:
    return {"sum": number(sum(end - begin for begin, end in given))}


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 1e-6
