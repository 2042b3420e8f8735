"""Exercise 22.3: what levers on different parts of a step can give, by Amdahl's law.

G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing
capabilities", AFIPS Spring Joint Computer Conference (1967) 483-485.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

from ..what_if import total_gain

Levers = list[tuple[float, float]]
CASES: tuple[Levers, ...] = (
    [(0.5, 2.0)],
    [(0.2, math.inf)],
    [(0.2, math.inf), (0.2, math.inf)],
    [(0.5, 2.5), (0.3, 3.0), (0.1, 1.0)],
    [(0.25, 0.5)],
    [],
)


def reference(levers: Sequence[tuple[float, float]]) -> float:
    """The old step over what is left of it."""
    left = 1 - sum(share for share, _ in levers)
    return 1 / (left + sum(share / speedup for share, speedup in levers))


def check(student: Callable[..., Any]) -> Passed:
    """One lever, one that removes its part, two, three, one that slows, and none."""
    for levers in CASES:
        case = "levers " + (", ".join(f"({s:g}, {f:g})" for s, f in levers) or "none")
        got = _ask(student, levers, case)
        want = total_gain([s for s, _ in levers], [f for _, f in levers])
        if not _near(got, want):
            facts = {"got": number(got), "want": number(want), "n": len(levers)}
            facts["left"] = number(1 - sum(share for share, _ in levers))
            raise Wrong(_key(levers, got, want), case, **facts)
    return Passed((("two levers that remove 20 % each", number(_ask(student, CASES[2], "")),
                    number(1 / 0.6), "times"),))  # fmt: skip


def _ask(student: Callable[..., Any], levers: Levers, case: str) -> float:
    mine = list(levers)
    got = ask(student, mine, case=case)
    if mine != levers:
        raise Wrong("changed", case)
    value = to_number(got, case, nan=True)
    if math.isnan(value):
        raise Wrong("infinity", case)
    return value


def _key(levers: Levers, got: float, want: float) -> str:
    if not levers:
        return "nothing"
    if _near(got, 1 / want):
        return "time_left"
    if _near(got, 1 - 1 / want):
        return "time_saved"
    if _near(got, want - 1) or _near(got, 100 * (want - 1)):
        return "excess"
    worked = sum(share / speedup for share, speedup in levers)
    left = 1 - sum(share for share, _ in levers)
    if worked > 0 and _near(got, 1 / worked):
        return "rest"
    if _near(got, left + sum(share * speedup for share, speedup in levers)):
        return "average"
    if _near(got, sum(share * speedup for share, speedup in levers)):
        return "share_of_speedup"
    if len(levers) > 1:
        return _together(levers, got)
    return "speedup" if _near(got, levers[0][1]) else "bound"


def _together(levers: Levers, got: float) -> str:
    alone = [1 / (1 - share + share / speedup) for share, speedup in levers]
    if _near(got, math.prod(alone)):
        return "multiplied"
    if _near(got, 1 + sum(one - 1 for one in alone)) or _near(got, sum(alone)):
        return "added"
    if any(_near(got, one) for one in alone):
        return "one_only"
    return "bound"


def _near(a: float, b: float) -> bool:
    return a == b or abs(a - b) < 1e-6
