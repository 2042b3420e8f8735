"""Exercise 7.4: the α–β cost of a ring and of a tree, checked by physics.

With β = 0 a time counts messages, with α = 0 it counts bytes. No ranks are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dtlib.learn.checking import Passed, Wrong, stopped_here
from dtlib.learn.diagnosis import number
from dtlib.sim.collectives import ring_all_reduce_time, rounds, tree_all_reduce_time

Cost = Callable[[float, int, float, float], Any]
SIZE = 48_000_000  # bytes; 3, 4 and 64 divide it
ALPHA, BETA = 10e-6, 1e-10  # 10 µs a message, 10 GB/s
RELATIVE = 1e-6


def check_ring(student: Cost) -> Passed:
    """Check `ring_time(S, N, α, β)` alone, N = 1, and then for several ranks."""
    _alone(student)
    _falls_with_beta(student)
    for n in (4, 3, 64):
        messages = _time(student, SIZE, n, 1.0, 0.0)
        seconds = _time(student, SIZE, n, 0.0, BETA)
        _ring(n, messages, seconds)
        _both(student, ring_all_reduce_time, n)
    return _passed(student, ring_all_reduce_time)


def check_tree(student: Cost) -> Passed:
    """Check `tree_time(S, N, α, β)` likewise; 6 and 3 are no powers of two."""
    _alone(student)
    _falls_with_beta(student)
    for n in (64, 8, 4, 6, 3):
        messages = _time(student, SIZE, n, 1.0, 0.0)
        seconds = _time(student, SIZE, n, 0.0, BETA)
        _tree(n, messages, seconds)
        _both(student, tree_all_reduce_time, n)
    return _passed(student, tree_all_reduce_time)


def _time(student: Cost, size: float, n: int, alpha: float, beta: float) -> float:
    case = f"S = {number(size)} bytes, N = {n}, α = {alpha:g} s, β = {beta:g} s per byte"
    try:
        value = student(size, n, alpha, beta)
    except Exception as error:
        raise stopped_here(error, case) from error
    if value is None:
        raise Wrong("none", case)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Wrong("kind", case, got=type(value).__name__) from None


def _alone(student: Cost) -> None:
    got = _time(student, SIZE, 1, ALPHA, BETA)
    if got != 0:
        raise Wrong("alone", f"N = 1, S = {SIZE:,} bytes", got=f"{got:.4g}")


def _falls_with_beta(student: Cost) -> None:
    fast, slow = (_time(student, SIZE, 4, 0.0, k * BETA) for k in (1, 2))
    if slow < fast:
        raise Wrong("divides", "N = 4, α = 0, β doubled", fast=f"{fast:.3g}", slow=f"{slow:.3g}")


def _ring(n: int, messages: float, seconds: float) -> None:
    right = 2 * (n - 1)
    per_byte = seconds / (right * SIZE / n * BETA)  # 1 where the bytes are right
    counted = {"n": n, "got": number(messages), "right": right, "steps": n - 1}
    no_beta, no_alpha = f"N = {n}, β = 0", f"N = {n}, α = 0, S = {SIZE:,} bytes"
    if _near(messages, n * right) and _near(per_byte, n):
        raise Wrong("all_ranks", no_beta, **counted)
    if _near(messages, n - 1):
        raise Wrong("one_half", no_beta, **counted)
    if _near(messages, 1):
        raise Wrong("alpha_once", no_beta, **counted)
    if not _near(messages, right):
        raise Wrong("messages", no_beta, **counted)
    if _near(per_byte, n):
        raise Wrong("whole_tensor", no_alpha, n=n)
    if _near(per_byte, 8) or _near(per_byte, 1 / 8):
        raise Wrong("bits", no_alpha, way="too much" if per_byte > 1 else "too little")
    if not _near(per_byte, 1):
        raise Wrong("bytes", no_alpha, times=f"{per_byte:.4g}", n=n)


def _tree(n: int, messages: float, seconds: float) -> None:
    right = 2 * rounds(n)
    per_byte = seconds / (right * SIZE * BETA)
    no_beta, no_alpha = f"N = {n}, β = 0", f"N = {n}, α = 0, S = {SIZE:,} bytes"
    if right != 2 * math.log2(n) and _near(messages, 2 * math.log2(n)):
        raise Wrong("part_of_a_round", no_beta, n=n, got=f"{messages:.3g}")
    if not _near(messages, right):
        raise Wrong("rounds", no_beta, n=n, got=number(messages))
    if _near(per_byte, 8) or _near(per_byte, 1 / 8):
        raise Wrong("bits", no_alpha, way="too much" if per_byte > 1 else "too little")
    if not _near(per_byte, 1):
        raise Wrong("bytes", no_alpha, times=f"{per_byte:.4g}", n=n)


def _both(student: Cost, right: Cost, n: int) -> None:
    got, want = _time(student, SIZE, n, ALPHA, BETA), right(SIZE, n, ALPHA, BETA)
    if not _near(got, want):
        raise Wrong("together", f"N = {n}", n=n, got=f"{got:.4g}", want=f"{want:.4g}")


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=RELATIVE)


def _passed(student: Cost, right: Cost) -> Passed:
    rows = []
    for size, words in ((4e3, "4 kB"), (4e8, "400 MB")):
        mine, target = (_time(f, size, 64, ALPHA, BETA) * 1e3 for f in (student, right))
        rows.append((f"{words} on 64 ranks", round(mine, 3), round(target, 3), "ms"))
    return Passed(tuple(rows), "α = 10 µs, β = 1/(10 GB/s).")
