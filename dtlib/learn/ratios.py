"""Compare numbers up to their last bits, and print numbers with few digits."""

from __future__ import annotations

import math

RELATIVE = 1e-6


def near(got: float, want: float) -> bool:
    """Whether two numbers agree; formulas in another order differ in their last bits."""
    return math.isclose(got, want, rel_tol=RELATIVE)


def apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers in as many digits as it takes to tell them apart, at least four."""
    for digits in range(4, 17):
        told = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if told[0] != told[1]:
            break
    return told


def short(value: float) -> str:
    """Four digits: 0.6667, 48, 1.728e+05."""
    return f"{value:.4g}"
