"""Exercise 22.1: the gain in throughput from pairs of turns, with the smallest and the largest."""

import itertools
import math
from collections.abc import Iterator
from statistics import geometric_mean, mean, median, median_high, median_low

from dtlib.learn.alike import rounded
from dtlib.learn.answers import Answer
from dtlib.learn.calls import ask, to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import MOST, shown, told_apart, words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

gain = solution("gain", globals())


def case(before, after):
    """Label seconds before and after; the first pair is the warm-up."""
    return f"before {words(before)}, after {words(after)}", (before, after)


def read(got):
    """Read three numbers."""
    if got is None:
        raise Wrong("none")
    if isinstance(got, (int, float)) and not isinstance(got, bool):
        raise Wrong("one_number", got=words(got))
    if isinstance(got, Iterator):
        source = got
        got = ask(lambda: list(itertools.islice(source, MOST)), case="")
    try:
        values = [to_number(value) for value in got]
    except (TypeError, ValueError, Wrong):
        raise Wrong("not_three", got=shown(got)) from None
    if len(values) != 3:
        raise Wrong("not_three", got=f"{len(values)} number{'s' * (len(values) != 1)}")
    return values


def near(a, b):
    """Whether two numbers are equal up to rounding."""
    return math.isclose(a, b, rel_tol=1e-6)


def middle(key, found, *, warm=False):
    """A mistake in the median, whatever the ends are.

    `found` makes the wrong median from ratios and seconds, with the warm-up if `warm`. In some
    pairs of the second case the machine is slow for both settings, so that each mistake gives a
    number of its own there.
    """

    def of(before, after):
        b, a = (before, after) if warm else (before[1:], after[1:])
        return found([x / y for x, y in zip(b, a, strict=True)], b, a)

    def program(before, after):
        return of(before, after), *gain(before, after)[1:]

    def when(got, want, before, after):
        return not near(got[0], want[0]) and near(got[0], of(before, after))

    return Mistake(key, program, when)


def ends(low, high):
    """A mistake in the ends, which come from the seconds without the warm-up."""
    return lambda b, a: (gain(b, a)[0], low(b[1:], a[1:]), high(b[1:], a[1:]))


def facts(got, want, before):
    """Return the student's and the right median and ends."""
    told: dict[str, int | str] = {"pairs": len(before) - 1}
    names = ("got", "want"), ("low", "right_low"), ("high", "right_high")
    for both, mine, right in zip(names, got, want, strict=True):
        told |= dict(zip(both, told_apart(mine, right), strict=True))
    return told


def passed(got, want):
    """Show the gain of the second case, which has five pairs."""
    (m, *ends), (right, *right_ends) = got[1], want[1]
    return Passed((("gain of five pairs", words(m), words(right), "times"),
                   ("its ends", words(ends), words(right_ends), "times")))  # fmt: skip


EXERCISE = Answer(
    gain,
    read=read,
    # One pair, five pairs on a shared machine, four of which most are losses, and three. In the
    # last case no gain ends after a few digits, and the warm-up's is in the middle.
    cases=[
        case([9.0, 5.0], [3.0, 4.0]),
        case([40.0, 11.0, 5.2, 4.5, 5.0, 12.0], [10.0, 9.0, 2.0, 5.0, 4.0, 5.0]),
        case([1.0, 6.0, 2.0, 3.0, 2.0], [8.0, 4.0, 4.0, 4.0, 2.0]),
        case([7.0, 6.0, 5.0, 4.0], [9.0, 3.0, 4.0, 4.0]),
        case([3.0, 1.0, 7.3, 2.9], [2.2, 0.7, 5.9, 3.1]),
    ],
    mistakes=[
        Mistake(
            "rounded",
            {"return (": "return tuple(round(x, 1) for x in ((", "ratios[-1]": "ratios[-1]))"},
            when=lambda got, want: rounded(got, want) is not None,
        ),
        middle("middle", lambda r, b, a: median_high(r)),
        middle("middle", lambda r, b, a: median_low(r)),
        middle("upside_down", lambda r, b, a: 1 / median(r)),
        middle("upside_down", lambda r, b, a: median(1 / x for x in r)),
        middle("saved", lambda r, b, a: median(1 - 1 / x for x in r)),
        middle("saved", lambda r, b, a: median(2 - 1 / x for x in r)),
        middle("excess", lambda r, b, a: median(r) - 1),
        middle("percent", lambda r, b, a: 100 * median(r) - 100),
        middle("percent", lambda r, b, a: 100 * median(r)),
        middle("warm_up", lambda r, b, a: median(r), warm=True),
        middle("warm_up", lambda r, b, a: mean(r), warm=True),
        middle("warm_up", lambda r, b, a: median(r[:-1]), warm=True),
        middle("warm_up", lambda r, b, a: median(sorted(r)[1:]), warm=True),
        middle("inverse", lambda r, b, a: 1 / median(1 / x for x in r)),
        middle("unpaired", lambda r, b, a: median(b) / median(a)),
        middle("totals", lambda r, b, a: sum(b) / sum(a)),
        middle("best_of", lambda r, b, a: min(b) / min(a)),
        middle("best_pair", lambda r, b, a: max(r)),
        middle("sorted", lambda r, b, a: median(map(float.__truediv__, sorted(b), sorted(a)))),
        middle("crossed", lambda r, b, a: median(x / y for x in b for y in a)),
        middle("mean", lambda r, b, a: mean(r)),
        middle("geometric", lambda r, b, a: geometric_mean(r)),
        middle("unsorted", lambda r, b, a: r[len(r) // 2]),
        middle("difference", lambda r, b, a: median(map(float.__sub__, b, a))),
        middle("warm_unpaired", lambda r, b, a: median(b) / median(a), warm=True),
        middle("warm_unpaired", lambda r, b, a: sum(b) / sum(a), warm=True),
        middle("warm_unpaired", lambda r, b, a: median(x / y for x in b for y in a), warm=True),
        ("swapped", {"ratios[0], ratios[-1]": "ratios[-1], ratios[0]"}),
        ("order", lambda b, a: tuple(gain(b, a)[k] for k in (1, 0, 2))),
        ("warm_ends", lambda b, a: (gain(b, a)[0], *gain([0, *b], [1, *a])[1:])),
        ("crossed_ends", ends(lambda b, a: min(b) / max(a), lambda b, a: max(b) / min(a))),
        ("two_left_out", lambda b, a: gain(b[1:], a[1:]) if len(b) > 2 else gain(b, a)),
        Mistake("ends", when=lambda got, want: near(got[0], want[0])),
    ],
    other="gain",
    facts=facts,
    changed="changed",
    passed=passed,
)
