"""Exercise 22.4: after how many steps a change that costs something first has paid for itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

# Seconds to compile, of a step before, of a step after; all exact in binary.
CASES = (
    (30.0, 0.75, 0.25),
    (10.0, 1.0, 0.25),
    (0.0, 0.5, 0.25),
    (20.0, 0.25, 0.25),
    (20.0, 0.25, 0.5),
)


def reference(compile_seconds: float, before: float, after: float) -> float:
    """What it costs over what a step saves, the last step begun counted whole."""
    if after >= before:
        return math.inf
    return math.ceil(compile_seconds / (before - after))


def check(student: Callable[..., Any]) -> Passed:
    """A whole number, one that is not, nothing to pay, nothing saved, and a loss."""
    for cost, before, after in CASES:
        case = f"{cost:g} s to compile, a step of {before:g} s before and {after:g} s after"
        got = _ask(student, case, cost, before, after)
        want = reference(cost, before, after)
        if got != want and not abs(got - want) < 1e-9:
            facts = {"got": number(got), "want": number(want), "cost": f"{cost:g}"}
            facts |= {"before": f"{before:g}", "after": f"{after:g}"}
            raise Wrong(_key(cost, before, after, got), case, **facts)
    shown = _ask(student, "", *CASES[1])
    return Passed((("steps until 10 s are paid, 0.75 s a step", number(shown), "14", ""),))


def _ask(student: Callable[..., Any], case: str, *given: float) -> float:
    try:
        got = ask(student, *given, case=case)
    except Wrong as wrong:
        if wrong.numbers.get("error") == "ZeroDivisionError":
            raise Wrong("divides_by_zero", case) from None
        raise
    if got is None and case and given[2] >= given[1]:
        raise Wrong("none_for_never", case)
    value = to_number(got, case, nan=True)
    if math.isnan(value):
        raise Wrong("divides_by_zero", case)
    return value


def _key(cost: float, before: float, after: float, got: float) -> str:
    if after >= before:
        return "negative" if got < 0 else "never"
    saved = before - after
    known = {
        "per_step_before": cost / before,
        "per_step_after": cost / after,
        "seconds": reference(cost, before, after) * before,
        "seconds_after": cost + reference(cost, before, after) * after,
        "times_saved": cost * saved,
        "ratio": cost / (before / after),
        "fraction": cost / saved,
        "too_early": math.floor(cost / saved),
        "too_late": math.floor(cost / saved) + 1,
    }
    for key, value in known.items():
        if abs(got - value) < 1e-9 or abs(got - math.ceil(value)) < 1e-9:
            return "seconds" if key == "seconds_after" else key
    return "steps"
