"""Exercise 21.3: the share of a step that behaves as if it were serial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

from ..what_if import serial_share

# Speed-up and ranks. The first tells all known mistakes apart; then the lesson's worked case, what
# NVIDIA published, a round one, nothing serial, nothing parallel.
CASES = ((1.6, 3), (1.6, 2), (6.72, 8), (4.0, 10), (8.0, 8), (1.0, 4))


def check(student: Callable[..., Any]) -> Passed:
    """Compare one speed-up after another."""
    for speedup, ranks in CASES:
        case = f"a speed-up of {speedup:g} on {ranks} ranks"
        got, want = ask_number(student, speedup, ranks, case=case), serial_share(speedup, ranks)
        if abs(got - want) > 1e-9:
            numbers = {"got": number(got), "want": number(want), "n": ranks, "speedup": speedup}
            raise Wrong(_key(speedup, ranks, got, want), case, **numbers)
    got = ask_number(student, *CASES[2], case="")
    return Passed((("serial share, 6.72 on 8", number(got), number(serial_share(*CASES[2])), ""),))


def _key(speedup: float, ranks: int, got: float, want: float) -> str:
    known = {
        "not_divided": 1 / speedup - 1 / ranks,
        "efficiency": speedup / ranks,
        "lost": 1 - speedup / ranks,
        "time": 1 / speedup,
        "parallel": 1 - want,
        "percent": 100 * want,
        "overhead": ranks / speedup - 1,
    }
    near = (key for key, value in known.items() if abs(got - value) < 1e-9)
    return next(near, "serial_share")
