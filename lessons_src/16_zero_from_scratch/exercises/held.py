"""Exercise 16.4a: the bytes of the model states on a rank, by kind, for every stage.

S. Rajbhandari et al., "ZeRO", SC20, arXiv:1910.02054, figure 1 and table 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import to_number
from dtlib.learn.checking import Passed, Wrong, stopped_here
from dtlib.learn.diagnosis import number
from dtlib.sim.states import model_states

KINDS = ("parameters", "gradients", "optimizer")
STRATEGIES = ("ddp", "zero1", "zero2", "zero3")
PAPER = 7.5e9  # parameters of the paper's first example
GIB = 2**30
Held = dict[str, float]


def reference(psi: float, n: int, stage: int, precision: str) -> Held:
    """The course's own formulas, the fp32 copy counted with the optimizer."""
    device = model_states(psi, n, STRATEGIES[stage], precision, kept="paper")["device"]
    own = {kind: device[kind] for kind in KINDS}
    return {**own, "optimizer": own["optimizer"] + device["fp32_copy"]}


def check(student: Callable[..., Any]) -> Passed:
    """Compare kind by kind, and recognise a mistake by the bytes a parameter that it gives."""
    _unit(student)
    for n in (1, 4, 64):
        for stage in range(4):
            _mixed(student, n, stage)
    for n in (1, 4, 64):
        for stage in range(4):
            _fp32(student, n, stage)
    rows = []
    for stage, printed in enumerate((120, 31.4, 16.6, 1.88)):
        total = sum(_ask(student, PAPER, 64, stage, "mixed").values())
        what = f"stage {stage}, 7.5 billion parameters, 64 ranks"
        rows.append((what, f"{total / 1e9:.3g}", printed, "GB"))
    return Passed(tuple(rows), "The target is what the paper prints.")


def _ask(student: Callable[..., Any], psi: float, n: int, stage: int, precision: str) -> Held:
    case = _case(psi, n, stage, precision)
    try:
        got = student(psi, n, stage, precision)
    except Exception as error:
        raise stopped_here(error, case) from error
    if got is None:
        raise Wrong("none", case)
    if not isinstance(got, dict):
        number_ = isinstance(got, (int, float))
        raise Wrong("kinds", case, got=f"{got:.4g}" if number_ else f"a {type(got).__name__}")
    found = dict(got)
    copy = found.pop("fp32_copy", 0)
    if set(found) != set(KINDS):
        raise Wrong("kinds", case, got="the keys " + (", ".join(map(str, got)) or "of no kind"))
    try:
        bytes_of = {kind: to_number(found[kind], case, nan=True) for kind in KINDS}
        bytes_of["optimizer"] += to_number(copy, case, nan=True)
    except Wrong:
        raise Wrong("kinds", case, got="values that are no numbers") from None
    return bytes_of


def _case(psi: float, n: int, stage: int, precision: str) -> str:
    return f"Ψ = {psi:.3g}, N = {n}, stage {stage}, {precision}"


def _unit(student: Callable[..., Any]) -> None:
    """One rank holds all: bytes, and not GB or GiB."""
    total = sum(_ask(student, PAPER, 1, 0, "mixed").values())
    if 0 < total < PAPER / 1000:
        binary = math.isclose(total * GIB % PAPER, 0, abs_tol=1) or _near(total, 16 * PAPER / GIB)
        key = "gib" if binary else "gigabytes"
        raise Wrong(key, _case(PAPER, 1, 0, "mixed"), got=f"{total:.4g}")


def _mixed(student: Callable[..., Any], n: int, stage: int) -> None:
    got = [v / PAPER for v in _ask(student, PAPER, n, stage, "mixed").values()]
    want = [v / PAPER for v in reference(PAPER, n, stage, "mixed").values()]
    if all(map(_near, got, want)):
        return
    case = _case(PAPER, n, stage, "mixed")
    total, right = sum(got), sum(want)
    facts = {"got": number(total), "want": number(right), "gb": f"{total * 7.5:.3g}", "n": n}
    facts |= {"stage": stage, "split": _split(got)}
    if n == 1:
        whole = {"no_master": (2, 2, 8), "fp32_gradients": (2, 4, 12), "fp32_split": (4, 4, 8)}
        for key, bytes_each in whole.items():
            if all(map(_near, got, bytes_each)):
                raise Wrong(key, case, **facts)
        raise Wrong("bytes_each", case, **facts)
    if stage and all(map(_near, got, (2, 2, 12))):
        raise Wrong("not_divided", case, **facts)
    if stage in (1, 2) and all(map(_near, got, (2 / n, 2 / n, 12 / n))):
        raise Wrong("all_divided", case, **facts)
    if _near(total, right):
        raise Wrong("swapped", case, **facts)
    if stage > 1 and all(map(_near, got, (2, 2, 12 / n))):
        raise Wrong("optimizer_alone", case, **facts)
    _other_kind(got, want, case, facts)


def _fp32(student: Callable[..., Any], n: int, stage: int) -> None:
    got = [v / PAPER for v in _ask(student, PAPER, n, stage, "fp32").values()]
    want = [v / PAPER for v in reference(PAPER, n, stage, "fp32").values()]
    if all(map(_near, got, want)):
        return
    case = _case(PAPER, n, stage, "fp32")
    facts = {"got": number(sum(got)), "want": number(sum(want)), "n": n, "stage": stage}
    facts |= {"split": _split(got)}
    if all(map(_near, got, (v / PAPER for v in reference(PAPER, n, stage, "mixed").values()))):
        seven = sum(_ask(student, PAPER, 4, 1, "fp32").values()) / PAPER
        raise Wrong("paper_in_fp32", _case(PAPER, 4, 1, "fp32"), seven=number(seven))
    if n == 1 and all(map(_near, got, (4, 4, 12))):
        raise Wrong("copy_in_fp32", case, **facts)
    _other_kind(got, want, case, facts)


def _other_kind(got: list[float], want: list[float], case: str, facts: dict[str, Any]) -> None:
    k = next(k for k in range(3) if not _near(got[k], want[k]))
    facts |= {"kind": KINDS[k], "mine": number(got[k]), "right": number(want[k])}
    raise Wrong("kind_of_bytes", case, **facts)


def _split(values: list[float]) -> str:
    return " + ".join(number(v) for v in values)


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
