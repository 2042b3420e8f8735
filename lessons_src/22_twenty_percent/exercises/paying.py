"""Exercise 22.4: after how many steps compiling has paid off, if each new batch size has a price.

What a run owes after a step is the price of all sizes so far, minus what its steps have saved.
"""

import math
import operator
from itertools import groupby

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

PAYS, LAST = "debt += compile_seconds", "last + 1"  # pieces of the solution's code
LONG = 10**5  # steps; who looks at all steps before in each needs minutes for them

break_even = solution("break_even", globals())


def case(cost, before, after, *sizes):
    """Label a case, in seconds that are exact in binary; `sizes` has (how many steps, size)."""
    told = ", ".join(f"{n} × {size}" for n, size in sizes)
    label = f"{cost:g} s to compile, a step of {before:g} s before and {after:g} s after"
    return f"{label}, sizes {told}", (cost, before, after, [s for n, s in sizes for _ in range(n)])


def read(got, compile_seconds, before, after, sizes):
    """Read the number of a step; infinity for a run that ends behind."""
    if got is None and break_even(compile_seconds, before, after, sizes) == math.inf:
        raise Wrong("none_for_never")
    value = to_number(got, nan=True)
    if math.isnan(value):
        raise Wrong("divides_by_zero")
    return value


def first_time(compile_seconds, before, after, sizes):
    """A mistake: the first step after which the run is level, though it falls behind again."""
    seen: set[int] = set()
    for k, size in enumerate(sizes, start=1):
        seen.add(size)
        if len(seen) * compile_seconds <= k * (before - after):
            return k
    return math.inf


def in_seconds(steps):
    """A mistake: the seconds until then, of as many compiled steps as `steps` says."""

    def program(compile_seconds, before, after, sizes):
        k = break_even(compile_seconds, before, after, sizes)
        if k == math.inf:
            return k
        return len(set(sizes[:k])) * compile_seconds + steps(k) * after

    return program


def divided(prices, bound=True, rounded=math.ceil):
    """A mistake: a number of prices, divided by what a step saves."""

    def program(compile_seconds, before, after, sizes):
        if after >= before:
            return math.inf
        steps = rounded(prices(sizes) * compile_seconds / (before - after))
        return steps if steps <= len(sizes) or not bound else math.inf

    return program


def unless(saves, otherwise):
    """A mistake that is made only where a step does not save anything."""

    def program(compile_seconds, before, after, sizes):
        right = break_even(compile_seconds, before, after, sizes)
        return right if saves(before, after) else otherwise(compile_seconds, before, after)

    return program


def forgets(compile_seconds, before, after, sizes):
    """A mistake: a size has to be paid again unless it was one of the last two."""
    found: list[int] = []
    debt, last = 0.0, 0
    for k, size in enumerate(sizes, start=1):
        debt += after - before + (size not in found[-2:]) * compile_seconds
        found = [*(one for one in found if one != size), size]
        last = k if debt > 0 else last
    return last + 1 if last < len(sizes) else math.inf


def facts(compile_seconds, before, after, sizes):
    """Return the numbers of the case."""
    told = {"cost": compile_seconds, "before": before, "after": after}
    spans = sum(1 for _ in groupby(sizes))
    counts = {"n": len(sizes), "new": len(set(sizes)), "spans": spans}
    return {name: f"{value:g}" for name, value in told.items()} | counts


def no_saving(before, after):
    """Whether a step saves nothing."""
    return after >= before


EXERCISE = Answer(
    break_even,
    same=1e-9,
    read=read,
    # One size: whole, a fraction, never within the run, no saving, a loss. Two sizes: behind
    # again, behind at the end, saved in advance, an old size that comes back. Three sizes, and
    # the first of three comes back. One size: level at the very end, no price, a long run.
    cases=[
        case(4.5, 1.25, 0.5, (10, 32)),
        case(1.0, 1.0, 0.25, (4, 32)),
        case(4.0, 0.5, 0.25, (8, 32)),
        case(1.0, 0.25, 0.25, (4, 32)),
        case(1.0, 0.25, 0.5, (4, 32)),
        case(1.0, 0.5, 0.25, (4, 32), (1, 20), (7, 32)),
        case(1.0, 0.5, 0.25, (6, 32), (1, 20)),
        case(0.5, 0.5, 0.25, (6, 32), (2, 20)),
        case(1.0, 0.5, 0.25, (2, 32), (2, 20), (2, 32), (10, 20)),
        case(1.0, 0.5, 0.25, (4, 32), (4, 20), (5, 24)),
        case(0.5, 0.5, 0.25, (2, 32), (2, 20), (2, 24), (6, 32)),
        case(1.0, 0.5, 0.25, (4, 32)),
        case(0.0, 0.5, 0.25, (3, 32)),
        case(1.0, 0.5, 0.25, (LONG, 32)),
    ],
    mistakes=[
        Mistake("divides_by_zero", unless(operator.ne, lambda cost, before, after: 1 / 0),
                when=lambda error, before, after: (
                    error == "ZeroDivisionError" and no_saving(before, after))),
        Mistake("negative", unless(operator.ge, lambda cost, before, after: (
                    math.ceil(cost / (before - after)))),
                when=lambda got, before, after: no_saving(before, after) and got < 0),
        ("beyond", divided(lambda sizes: 1, bound=False)),
        ("beyond", divided(lambda sizes: len(set(sizes)), bound=False)),
        ("rounded_down", divided(lambda sizes: 1, bound=False, rounded=int)),
        ("rounded_down", divided(lambda sizes: 1, rounded=int)),
        ("first_time", first_time),
        ("one_price", {"size not in seen": "k == 1"}),
        ("one_price", divided(lambda sizes: 1)),
        ("two_prices", {"size not in seen": "size not in seen and len(seen) < 2"}),
        ("forgets", forgets),
        ("every_change", {"seen.add(size)": "seen = {size}"}),
        ("in_advance", divided(lambda sizes: len(set(sizes)))),
        ("compile_instead", {PAYS: f"{PAYS} - after"}),
        ("compile_alone", {PAYS: f"{PAYS} + before - after"}),
        ("per_step_before", {"after - before": "-before"}),
        ("per_step_after", {"after - before": "-after"}),
        ("seconds", {LAST: f"({LAST}) * before"}),
        ("seconds", in_seconds(lambda k: k)),
        ("seconds", in_seconds(lambda k: k - 1)),
        ("by_size", {"after - before": "(after - before) * size / sizes[0]"}),
        Mistake("slow", when=lambda error, sizes: (
                    error == "loops" and len(sizes) == LONG and {"n": len(sizes)})),
        ("too_early", {LAST: "last"}),
        ("too_early", {LAST: "(last + 1 if last else 0)"}),
        ("too_late", {"debt > 0": "debt >= 0"}),
        ("too_late", {LAST: "last + 2"}),
        ("at_the_end", {"math.inf": "len(sizes)"}),
        Mistake("gives_up", {"last < len(sizes)": "last < len(sizes) - 1"},
                when=lambda got, want: got == math.inf != want),
        Mistake("never", {"math.inf": "len(sizes) + 1"},
                when=lambda got, want: want == math.inf != got),
    ],
    other="steps",
    facts=facts,
    changed="changed",
    passed=lambda got, want: Passed(
        (("step of the run that falls behind again", words(got[5]), words(want[5]), ""),)
    ),
)  # fmt: skip
