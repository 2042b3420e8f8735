"""Compare numbers up to their last bits, and print numbers with few digits."""

from __future__ import annotations

import math

RELATIVE = 1e-6


def near(got: float, want: float) -> bool:
    """Whether two numbers agree; formulas in another order differ in their last bits."""
    return math.isclose(got, want, rel_tol=RELATIVE)


def short(value: float) -> str:
    """Four digits: 0.6667, 48, 1.728e+05."""
    return f"{value:.4g}"
