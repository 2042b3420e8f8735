"""More answers to `break_even`, for the tests only."""

import math
from itertools import accumulate

from ..exercises.paying import break_even, in_seconds


def all_steps_before_each(compile_seconds, before, after, sizes):
    prices = [len(set(sizes[:k])) * compile_seconds for k in range(1, len(sizes) + 1)]
    behind = [k for k, price in enumerate(prices, 1) if price > k * (before - after)]
    if behind and behind[-1] == len(sizes):
        return math.inf
    return behind[-1] + 1 if behind else 1


def from_the_end(compile_seconds, before, after, sizes):
    """Walk back from the last step for as long as the run is not behind."""
    first = {size: k for k, size in reversed(list(enumerate(sizes, start=1)))}
    paid = len(first)
    for k in range(len(sizes), 0, -1):
        if paid * compile_seconds > k * (before - after):
            return k + 1 if k < len(sizes) else math.inf
        paid -= first[sizes[k - 1]] == k
    return 1


def by_totals(compile_seconds, before, after, sizes):
    met = list(accumulate(sizes, lambda seen, size: seen | {size}, initial=frozenset()))
    new = [size not in seen for size, seen in zip(sizes, met, strict=False)]
    plain = list(accumulate([before] * len(sizes)))
    fast = list(accumulate(after + compile_seconds * one for one in new))
    behind = [k for k, (a, b) in enumerate(zip(plain, fast, strict=True), 1) if b > a]
    if behind and behind[-1] == len(sizes):
        return float("inf")
    return behind[-1] + 1 if behind else 1


def none_at_all(compile_seconds, before, after, sizes):
    steps = break_even(compile_seconds, before, after, sizes)
    return None if steps == math.inf else steps


def empties_the_list(compile_seconds, before, after, sizes):
    steps = break_even(compile_seconds, before, after, sizes)
    sizes.clear()
    return steps


def counts_from_zero(compile_seconds, before, after, sizes):
    return break_even(compile_seconds, before, after, sizes) - 1


def compiles_or_saves(compile_seconds, before, after, sizes):
    behind, last = 0.0, 0
    for k, size in enumerate(sizes):
        behind += after - before if size in sizes[:k] else compile_seconds
        last = k + 1 if behind > 0 else last
    return last + 1 if last < len(sizes) else math.inf


def divides_by_the_price(compile_seconds, before, after, sizes):
    steps = break_even(compile_seconds, before, after, sizes)
    return steps if 1 / compile_seconds else 0


def divides(compile_seconds, before, after, sizes):
    return math.ceil(compile_seconds / (before - after))


def divides_unless_level(compile_seconds, before, after, sizes):
    if before == after:
        return math.inf
    return math.ceil(compile_seconds / (before - after))


def divides_within_the_run(compile_seconds, before, after, sizes):
    steps = divides(compile_seconds, before, after, sizes)
    return steps if steps <= len(sizes) else math.inf


def rounds_down(compile_seconds, before, after, sizes):
    return compile_seconds // (before - after)


ALSO_WRONG = [
    ("beyond", divides),
    ("beyond", divides_unless_level),
    ("divides_by_zero", divides_within_the_run),
    ("rounded_down", rounds_down),
    ("raised", divides_by_the_price),
    ("compile_alone", compiles_or_saves),
    ("none_for_never", none_at_all),
    ("changed", empties_the_list),
    ("too_early", counts_from_zero),
    (
        "negative",
        lambda cost, before, after, sizes: (
            -1 if after >= before else break_even(cost, before, after, sizes)
        ),
    ),
    ("gives_up", lambda cost, before, after, sizes: math.inf),
    ("every_change", {"seen.add(size)": "seen.clear(); seen.add(size)"}),
    ("too_early", {"after - before": "0.25 - before"}),
    ("slow", all_steps_before_each),
    ("seconds", in_seconds(lambda k: k - 1)),
    ("steps", lambda cost, before, after, sizes: 100),
]
ALSO_RIGHT = [from_the_end, by_totals]
