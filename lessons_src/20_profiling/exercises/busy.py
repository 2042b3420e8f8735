"""Exercise 20.2: time that overlaps counts once."""

import copy
import itertools

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

SORTED, LATEST = "sorted(intervals)", "max(reached, end)"  # parts of the solution
BEYOND = "max(0.0, end - max(begin, reached))"
NEIGHBOUR = {LATEST: "end", BEYOND: "end - max(begin, reached)"}
# Each case has one thing: a gap, none, an overlap, disorder, one inside another, two that touch and
# begin or end between whole seconds, three at once, microseconds.
CASES = (
    [(0, 2), (6, 9)],
    [(2, 5)],
    [(0, 4), (3, 6)],
    [(6, 9), (0, 2), (1, 3)],
    [(0, 10), (1, 2), (3, 4), (12, 13)],
    [(0.25, 2), (2, 3.5), (2, 3.5)],
    [(0, 6), (1, 5), (2, 4)],
    [(1e-6, 5e-6), (3e-6, 7e-6)],
)

busy = solution("busy", globals())


def show(intervals):
    """Intervals in words."""
    return ", ".join(f"{begin:g}–{end:g}" for begin, end in intervals) or "none"


def asked(answer, *given):
    """The number that an answer returns, nan too; it must leave its lists as they were."""
    before = copy.deepcopy(given)
    got = answer(*given)
    for after, list_before in zip(given, before, strict=True):
        if got is not None and repr(after) != repr(list_before):
            try:
                raise Wrong("changed", after=show(after))
            except (TypeError, ValueError):  # something that is no interval got into the list
                raise Wrong("changed", after=repr(after)[:60]) from None
    return to_number(got, nan=True)


def less_each_pair(intervals):
    """A mistake: what several intervals share is subtracted once for each pair of them."""
    pairs = itertools.combinations(intervals, 2)
    shared = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)
    return sum(end - begin for begin, end in intervals) - shared


def without_the_last(intervals):
    """A mistake: a stretch is counted when the next one begins, and none begins after the last."""
    total, stretch = 0, None
    for begin, end in sorted(intervals):
        if stretch and begin <= stretch[1]:
            stretch = stretch[0], max(stretch[1], end)
            continue
        total += stretch[1] - stretch[0] if stretch else 0
        stretch = begin, end
    return total


def in_steps(intervals, steps=1):
    """A mistake: whole seconds, or so many steps in a second."""
    whole = [(int(steps * begin), int(steps * end)) for begin, end in intervals]
    return len({t for span in whole for t in range(*span)}) / steps


EXERCISE = Answer(
    busy,
    run=lambda answer, intervals: asked(answer, intervals),
    cases=[
        *((f"intervals {show(intervals)}", (intervals,)) for intervals in CASES),
        ("intervals none", ([],), "empty"),
    ],
    mistakes=[
        ("sum", {BEYOND: "end - begin"}),
        ("whole_stretch", lambda intervals: max((end for _, end in intervals), default=0)
            - min((begin for begin, _ in intervals), default=0)),
        ("inside", NEIGHBOUR),
        ("inside", {LATEST: "end"}),
        ("unsorted", {SORTED: "intervals"}),
        ("unsorted", {SORTED: "intervals", **NEIGHBOUR}),
        ("longest", {BEYOND: "max(0.0, end - begin - total)"}),
        ("pairs", less_each_pair),
        ("last_one", without_the_last),
        ("by_end", {SORTED: "sorted(intervals, key=lambda one: one[1])"}),
        ("whole_seconds", in_steps),
        ("coarse", lambda intervals: in_steps(intervals, 1000)),
        ("coarse", {"return total": "return round(total, 3)"}),
        ("microseconds", {"return total": "return total * 1e-6"}),
        ("empty", {"return total": "return total if intervals else float('nan')"}),
    ],
    other="busy",
    passed=lambda got: Passed((("busy of " + show(CASES[4]), words(got[4]), "11", "s"),)),
)  # fmt: skip
