"""Exercise 17.2: from a table of runs, what each change alone gained.

Seconds are painted: precision alone makes a step 3 times as fast, the optimizer 1.5 times, sharding
0.75 times, all three together 6 times, so that a wrong comparison names itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median
from typing import Any

from dtlib.learn.asking import to_number
from dtlib.learn.checking import Passed, Wrong, stopped_here

FACTORS = ("precision", "optimizer", "stage")
BEFORE = {"precision": "fp32", "optimizer": "plain", "stage": 0}
AFTER = {"precision": "bf16", "optimizer": "fused", "stage": 2}
Run = dict[str, Any]


def run(seconds: float, *changed: str) -> Run:
    """A row of the table: the baseline but for what is `changed`."""
    return {**BEFORE, **{factor: AFTER[factor] for factor in changed}, "seconds": seconds}


ALL = run(2.0, *FACTORS)
TWO = [run(3.0, "precision", "optimizer"), run(5.0, "precision", "stage"),
       run(10.0, "optimizer", "stage")]  # fmt: skip
PRECISION, OPTIMIZER, STAGE = (run(s, f) for s, f in zip((4.0, 8.0, 16.0), FACTORS, strict=True))
CASES: tuple[tuple[str, list[Run]], ...] = (
    ("two runs", [run(12.0), PRECISION]),
    ("a run with all three changes stands second", [run(12.0), ALL, PRECISION, OPTIMIZER, STAGE]),
    ("runs with one, two and three changes", [run(12.0), *TWO, PRECISION, OPTIMIZER, STAGE, ALL]),
    (
        "no run with the optimizer alone",
        [run(12.0), STAGE, run(3.0, "precision", "optimizer"), PRECISION],
    ),
    (
        "three repeats of each, one of them disturbed",
        [
            *[run(s) for s in (12.0, 12.0, 60.0)],
            *[run(s, "precision") for s in (40.0, 4.0, 4.0)],
            *[run(s, "stage") for s in (16.0, 1.0, 16.0)],
        ],
    ),
)


def reference(runs: Sequence[Run]) -> dict[str, float]:
    """The medians' ratio, of the runs that differ from the first in one factor alone."""
    return _compared(runs, median, lambda changed, factor: changed == [factor])


def _compared(
    runs: Sequence[Run],
    typical: Callable[[list[float]], float],
    takes: Callable[[list[str], str], bool],
    ratio: Callable[[float, float], float] = lambda before, after: before / after,
) -> dict[str, float]:
    changes = [[f for f in FACTORS if r[f] != runs[0][f]] for r in runs]
    of = lambda wanted: [r["seconds"] for r, c in zip(runs, changes, strict=True) if wanted(c)]  # noqa: E731
    before, found = typical(of(lambda c: c == [])), {}
    for factor in FACTORS:
        after = of(lambda c, factor=factor: takes(c, factor))
        if after:
            found[factor] = ratio(before, typical(after))
    return found


def _alone(changed: list[str], factor: str) -> bool:
    return changed == [factor]


def _at_all(changed: list[str], factor: str) -> bool:
    return factor in changed


# What a mistake makes of the same runs.
MISTAKES: dict[str, Callable[[Sequence[Run]], dict[str, float]]] = {
    "upside_down": lambda runs: _compared(runs, median, _alone, lambda b, a: a / b),
    "difference": lambda runs: _compared(runs, median, _alone, lambda b, a: b - a),
    "saved_share": lambda runs: _compared(runs, median, _alone, lambda b, a: 1 - a / b),
    "mean": lambda runs: _compared(runs, mean, _alone),
    "fastest": lambda runs: _compared(runs, min, _alone),
    "first_only": lambda runs: _compared(runs, lambda values: values[0], _alone),
    "last_only": lambda runs: _compared(runs, lambda values: values[-1], _alone),
    "mixed": lambda runs: _compared(runs, lambda values: values[0], _at_all),
    "mixed_median": lambda runs: _compared(runs, median, _at_all),
    "mixed_last": lambda runs: _compared(runs, lambda values: values[-1], _at_all),
    "mixed_best": lambda runs: _compared(runs, min, _at_all),
}


def check(student: Callable[..., Any]) -> Passed:
    """Two runs; then a run of all changes among them; one that is missing; repeats."""
    for label, runs in CASES:
        got, want = _gains(student, runs, label), reference(runs)
        if not _same(got, want):
            raise _explain(got, want, runs, label)
    got = _gains(student, CASES[1][1], CASES[1][0])
    rows = [(f"{f} alone", f"{got[f]:g}", f"{reference(CASES[1][1])[f]:g}", "×") for f in FACTORS]
    return Passed(tuple(rows))


def _gains(student: Callable[..., Any], runs: list[Run], label: str) -> dict[str, float]:
    given = [dict(r) for r in runs]
    try:
        got = student(given)
    except Exception as error:
        raise stopped_here(error, label) from error
    if given != runs:
        raise Wrong("mutates", label, before=len(runs), after=len(given))
    if got is None:
        raise Wrong("none", label)
    if not isinstance(got, Mapping):
        raise Wrong("kind", label, got=type(got).__name__)
    strange = [key for key in got if key not in FACTORS]
    if strange:
        raise Wrong("strange_key", label, got=strange[0])
    return {key: _number(value, key, label) for key, value in got.items()}


def _number(value: Any, factor: str, label: str) -> float:
    try:
        return to_number(value, label, nan=True)
    except Wrong:
        raise Wrong("no_number", label, factor=factor, got=type(value).__name__) from None


def _same(got: Mapping[str, float], want: Mapping[str, float]) -> bool:
    return set(got) == set(want) and all(math.isclose(got[k], want[k]) for k in want)


def _explain(
    got: Mapping[str, float], want: Mapping[str, float], runs: list[Run], label: str
) -> Wrong:
    invented = [factor for factor in FACTORS if factor in got and factor not in want]
    # what two mistakes would both make of these runs is told by the first key
    for key, made in MISTAKES.items():
        if _same(got, made(runs)):
            factor = next(f for f in got if f not in want or not math.isclose(got[f], want[f]))
            key = "mixed" if key.startswith("mixed") else key
            right = f"{want[factor]:g}" if factor in want else "unknown"
            return Wrong(key, label, factor=factor, got=f"{got[factor]:g}", want=right)
    if invented:
        return Wrong("invented", label, factor=invented[0], got=f"{got[invented[0]]:g}")
    lost = [factor for factor in want if factor not in got]
    if lost:
        return Wrong("lost", label, factor=lost[0], got=", ".join(got) or "nothing")
    factor = next(f for f in want if not math.isclose(got[f], want[f]))
    if math.isclose(got[factor], _from_the_end(runs, factor)):
        return Wrong("from_the_end", label, factor=factor, got=f"{got[factor]:g}")
    return Wrong("unrecognised", label, seen=f"{factor}: {got[factor]:g}")


def _from_the_end(runs: list[Run], factor: str) -> float:
    """What the factor gains when all others are changed already."""
    other = [f for f in FACTORS if f != factor]
    changed = {tuple(f for f in FACTORS if r[f] != runs[0][f]): r["seconds"] for r in runs}
    before, after = changed.get(tuple(other)), changed.get(FACTORS)
    return before / after if before and after else math.nan
