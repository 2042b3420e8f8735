"""Exercise 21.1: the efficiency of each number of ranks, from tidy rows of repeated runs."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

Times = Mapping[int, list[float]]
# Seconds a step by ranks, one a repeat. Each case adds one thing that can go wrong.
CASES: tuple[tuple[str, str, Times], ...] = (
    ("strong", "one repeat", {1: [8.0], 2: [5.0]}),
    ("weak", "one repeat", {1: [8.0], 4: [10.0]}),
    ("strong", "three numbers of ranks", {1: [8.0], 2: [5.0], 4: [4.0]}),
    # the median over repeats, the ratio of medians, the mean and the best all differ
    ("strong", "three repeats", {1: [8.0, 16.0, 10.0], 2: [7.0, 9.0, 5.5]}),
    ("weak", "three repeats", {1: [8.0, 16.0, 10.0], 4: [10.0, 17.0, 16.0]}),
)


def rows_of(times: Times) -> list[dict[str, Any]]:
    """Tidy rows, in an order that nobody should rely on: the last repeat of most ranks first."""
    rows = [
        {"ranks": n, "repeat": repeat, "step_time_s": seconds}
        for n, several in times.items()
        for repeat, seconds in enumerate(several)
    ]
    return rows[::-1]


def reference(kind: str, rows: list[dict[str, Any]]) -> dict[int, float]:
    """The median over repeats of T(1)/(N·T(N)), or T(1)/T(N) if weak, each in its own repeat."""
    one = {row["repeat"]: row["step_time_s"] for row in rows if row["ranks"] == 1}
    found: dict[int, list[float]] = {}
    for row in rows:
        more = row["ranks"] if kind == "strong" else 1
        value = one[row["repeat"]] / (more * row["step_time_s"])
        found.setdefault(row["ranks"], []).append(value)
    return {n: statistics.median(values) for n, values in sorted(found.items())}


def check(student: Callable[..., Any]) -> Passed:
    """Compare every number of ranks, one case after another."""
    for kind, what, times in CASES:
        rows = rows_of(times)
        case = f"{kind} scaling, {what}: {_words(times)}"
        got, want = _ask(student, kind, rows, case), reference(kind, rows)
        for n in sorted(want, reverse=True):
            if abs(got[n] - want[n]) > 1e-9:
                numbers = {"got": number(got[n]), "want": number(want[n]), "n": n}
                raise Wrong(_key(kind, times, n, got[n]), case, **numbers)
    shown = _ask(student, "strong", rows_of(CASES[2][2]), "")
    lines = ((f"efficiency on {n} ranks", number(shown[n]), number(w), "")
             for n, w in ((2, 0.8), (4, 0.5)))  # fmt: skip
    return Passed(tuple(lines))


def _words(times: Times) -> str:
    return ", ".join(
        f"T({n}) = {' / '.join(f'{value:g}' for value in values)} s" for n, values in times.items()
    )


def _ask(student: Callable[..., Any], kind: str, rows: list[Any], case: str) -> dict[int, float]:
    mine = copy.deepcopy(rows)
    got = ask(student, kind, mine, case=case)
    if got is None:
        raise Wrong("none", case)
    if mine != rows:
        raise Wrong("changed", case)
    ranks = sorted({row["ranks"] for row in rows})
    if not isinstance(got, dict):
        raise Wrong("not_a_dict", case, got=type(got).__name__)
    if any(n not in got for n in ranks):
        missing = next(n for n in ranks if n not in got)
        raise Wrong("missing", case, n=missing, got=repr(sorted(map(str, got)))[:60])
    return {n: to_number(got[n], case) for n in ranks}


def _key(kind: str, times: Times, n: int, got: float) -> str:
    first, own, more = times[1], times[n], n if kind == "strong" else 1
    paired = [a / (more * b) for a, b in zip(first, own, strict=True)]
    middle, (one, many) = statistics.median(paired), map(statistics.median, (first, own))
    other = min(m for m in times if m != 1)
    speed = [a / b for a, b in zip(first, own, strict=True)]
    rests = [statistics.median(speed), one / many, statistics.mean(speed)]
    known: dict[str, list[float]] = {
        "speedup" if kind == "strong" else "strong_on_weak":
            rests if kind == "strong" else [rest / n for rest in rests],
        "scaled_speedup": [] if kind == "strong" else [rest * n for rest in rests],
        "upside_down": [1 / middle],
        "percent": [100 * middle],
        "baseline": [times[other][0] * (other if kind == "strong" else 1) / (more * own[0])],
        "unpaired": [one / (more * many)],
        "mean": [statistics.mean(paired), statistics.mean(first) / (more * statistics.mean(own))],
        "best": [max(paired), min(first) / (more * min(own))],
        "one_repeat": [paired[0], paired[-1], min(paired)],
    }  # fmt: skip
    for key, values in known.items():
        if any(abs(got - value) < 1e-9 for value in values):
            return key
    return "efficiency"
