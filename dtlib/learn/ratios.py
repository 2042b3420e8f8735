"""Mistakes that show as a factor: what an answer is off by, and what that factor is known for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dtlib.learn.checking import Wrong

RELATIVE = 1e-6


def near(got: float, want: float) -> bool:
    """Whether two numbers agree; formulas in another order differ in their last bits."""
    return math.isclose(got, want, rel_tol=RELATIVE)


def compare(got: float, want: float, known: Mapping[str, float], case: str, **numbers: Any) -> None:
    """Do nothing where `got` is right.

    Parameters
    ----------
    known
        Mistake to the factor that it puts between `got` and `want`.

    Raises
    ------
    Wrong
        The first mistake that fits; `factor` where none does.
    """
    if near(got, want):
        return
    times = got / want
    seen = {"got": short(got), "want": short(want), "times": short(times), **numbers}
    for mistake, factor in known.items():
        if near(times, factor):
            raise Wrong(mistake, case, **seen)
    raise Wrong("factor", case, **seen)


def short(value: float) -> str:
    """Four digits: 0.6667, 48, 1.728e+05."""
    return f"{value:.4g}"
