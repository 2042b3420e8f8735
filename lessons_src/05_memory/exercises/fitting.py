"""Exercise 5.4: the largest micro-batch within a budget, from two peaks that were measured."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import torch

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

Peak = tuple[int, int]
Fit = Callable[[int, Peak, Peak], Any]

# (states, bytes of a sample, the two micro-batches that were measured, room for so many, rest)
WORLDS = (
    (100, 10, (2, 6), 40, 0),  # every usual wrong way gives another number here
    (100, 10, (2, 6), 40, 8),
    (100, 10, (1, 2), 1, 0),
    (7_000, 300, (4, 8), 26, 299),
)


def reference(budget: int, small: Peak, large: Peak) -> int:
    """The largest b whose peak is at most `budget`; 0 if none is."""
    each = (large[1] - small[1]) / (large[0] - small[0])
    states = small[1] - small[0] * each
    return max(0, math.floor((budget - states) / each))


def check(student: Fit) -> Passed:
    """Ask in worlds whose states and samples are known; then where nothing fits; then for real."""
    for states, each, (few, many), want, rest in WORLDS:
        small, large = ((b, states + b * each) for b in (few, many))
        budget = states + want * each + rest
        got = _ask(student, budget, small, large)
        if got != want:
            case = _case(budget, small, large)
            if got == want - 1 and _ask(student, budget + 1, small, large) == got:
                raise Wrong("one_sample_off", case, got=number(got), budget=budget, few=few)
            raise _explain(got, want, budget, states, each, small, large, case)
    _nothing_fits(student)
    gib = 2**30
    measured = (2, 9 * gib), (6, 17 * gib)
    got = _ask(student, 80 * gib, *measured)
    want = reference(80 * gib, *measured)
    if got != want:
        raise Wrong("value", _case(80 * gib, *measured), got=number(got), want=want, n=1, rank=0,
                    reading="")  # fmt: skip
    return Passed((("80 GiB; 9 GiB at b = 2, 17 GiB at b = 6", int(got), want, "samples"),))


def _ask(student: Fit, budget: int, small: Peak, large: Peak) -> float:
    case = _case(budget, small, large)
    value = ask(student, budget, small, large, case=case)
    if value is None:
        raise Wrong("none", case)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise Wrong("no_number", case, got=type(value).__name__)
    if not math.isfinite(value):
        raise Wrong("not_whole", case, got=str(float(value)))
    if value % 1:
        raise Wrong("not_whole", case, got=f"{value:.4g}")
    return float(value)


def _case(budget: int, small: Peak, large: Peak) -> str:
    peaks = " and ".join(f"{peak:,} bytes at b = {b}" for b, peak in (small, large))
    return f"a budget of {budget:,} bytes; measured {peaks}"


def _explain(
    got: float, want: int, budget: int, states: int, each: int, small: Peak, large: Peak, case: str
) -> Wrong:
    """Compare with what the usual wrong ways give in this world."""
    step = large[1] - small[1]
    ways = {
        "states_each_time": budget // (small[1] // small[0]),
        "states_forgotten": budget // each,
        "from_small": (budget - small[1]) // each,
        "from_large": (budget - large[1]) // each,
        "mixed_points": (budget - (large[1] - small[0] * each)) // each,
        "not_per_sample": (budget - (small[1] - small[0] * step)) // step,
        "in_proportion": budget * large[0] // large[1],
    }
    seen = {"got": number(got), "states": states, "each": each, "step": step}
    seen |= {"budget": f"{budget:,}", "peak": f"{states + int(got) * each:,}", "few": small[0]}
    seen |= {"many": large[0], "at_few": small[1], "share": number(small[1] / small[0])}
    if got == want + 1:
        exact = states + want * each == budget  # where there was nothing to round
        return Wrong("one_too_many" if exact else "rounded_up", case, **seen)
    if got == want - 1 and states + want * each == budget:
        return Wrong("to_spare", case, **seen)
    for name, value in ways.items():
        if got == value and name == "from_large":
            return Wrong("from_small", case, **{**seen, "few": large[0]})
        if got == value:
            return Wrong(name, case, **seen)
    return Wrong("too_large" if got > want else "too_small", case, **seen)


def _nothing_fits(student: Fit) -> None:
    small, large = (1, 110), (2, 120)
    for budget in (105, 40):
        got = _ask(student, budget, small, large)
        seen = {"got": number(got), "budget": budget, "one": small[1]}
        if got < 0:
            raise Wrong("negative", _case(budget, small, large), **seen)
        if got:
            raise Wrong("at_least_one", _case(budget, small, large), **seen)
