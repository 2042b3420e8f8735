"""Exercise 16.4b: how many elements a rank sends in a step, with k micro-batches.

S. Rajbhandari et al., "ZeRO", SC20, arXiv:1910.02054, section 7; exactly, (N-1)/N of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import to_number
from dtlib.learn.checking import Passed, Wrong, stopped_here
from dtlib.learn.diagnosis import number
from dtlib.sim.states import passes

PSI = 12


def reference(psi: float, n: int, stage: int, k: int) -> float:
    """(N-1)/N · Ψ, as often as the stage reduces and gathers."""
    return passes(stage, k) * psi * (n - 1) / n


# In multiples of Ψ for many ranks: what each mistake gives, by stage and micro-batches.
MISTAKES: dict[tuple[int, int], dict[str, float]] = {
    (1, 1): {"three_halves": 3},
    (2, 1): {"extra_gather": 3},
    (3, 1): {"gathered_once": 2},
    (0, 8): {"ddp_each_time": 16},
    (1, 8): {"stage1_each_time": 9},
    (2, 8): {"k_forgotten": 2, "gathers_each_time": 16},
    (3, 8): {"stage3_once": 3, "reduces_once": 17},
}


def check(student: Callable[..., Any]) -> Passed:
    """One rank, then four, with one micro-batch and with eight, and Ψ twice as large."""
    for stage in range(4):
        alone = _ask(student, PSI, 1, stage, 1)
        if alone:
            raise Wrong("alone", _case(PSI, 1, stage, 1), got=number(alone))
    for n, psi in ((3, PSI), (4, PSI), (64, 7_500_000_000)):
        for k in (1, 8):
            for stage in range(4):
                _compare(student, psi, n, stage, k)
    rows = [
        (f"stage {stage}, 8 micro-batches, {PSI} weights, 4 ranks", number(mine), number(want), "")
        for stage in range(4)
        for mine, want in [(_ask(student, PSI, 4, stage, 8), reference(PSI, 4, stage, 8))]
    ]
    return Passed(tuple(rows), "In elements that one rank sends in a step.")


def _compare(student: Callable[..., Any], psi: int, n: int, stage: int, k: int) -> None:
    got, want = _ask(student, psi, n, stage, k), reference(psi, n, stage, k)
    if math.isclose(got, want, rel_tol=1e-6):
        return
    case, once = _case(psi, n, stage, k), psi * (n - 1) / n
    facts = {"got": number(got), "want": number(want), "n": n, "k": k, "stage": stage}
    facts |= {"passes": number(got / once), "batches": _batches(k)}
    for key, times in MISTAKES.get((stage, k), {}).items():
        if math.isclose(got, times * once, rel_tol=1e-6):
            raise Wrong(key, case, **facts)
    for key, factor in (("all_ranks", n), ("bytes", 2), ("bytes", 4)):
        if math.isclose(got / want, factor, rel_tol=1e-6):
            raise Wrong(key, case, size=factor, **facts)
    raise Wrong("elements", case, **facts)


def _ask(student: Callable[..., Any], psi: int, n: int, stage: int, k: int) -> float:
    case = _case(psi, n, stage, k)
    try:
        got = student(psi, n, stage, k)
    except Exception as error:
        raise stopped_here(error, case) from error
    return to_number(got, case, nan=True)


def _case(psi: int, n: int, stage: int, k: int) -> str:
    return f"Ψ = {psi:,}, N = {n}, stage {stage}, {_batches(k)}"


def _batches(k: int) -> str:
    return f"{k} micro-batch{'es' * (k > 1)}"
