"""Whether two outcomes are the same: numbers up to rounding, tensors, tables, errors, anything."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any

from dtlib.learn.verdicts import Wrong

SAME = 1e-6  # relative: formulas in another order differ in their last bits
NOTHING = 1e-12  # what rounding leaves where the right value is 0


@dataclasses.dataclass(frozen=True)
class Stopped:
    """An answer that returned nothing: it raised, or was still running when its time ran out.

    `error` is the name of the exception, or "loops"; `wrong` is the general verdict on it.
    """

    error: str
    wrong: Wrong = dataclasses.field(compare=False)


def alike(a: Any, b: Any, close: float = SAME) -> bool:
    """Compare two outcomes, whatever they are made of.

    Numbers agree up to `close`, relative to the larger one; nan equals nan; a list equals a tuple
    with the same items; tensors and arrays must agree in shape and numbers, errors in their kind.
    An object whose type defines no equality equals only itself.
    """
    if a is b:
        return True
    if isinstance(a, Wrong) or isinstance(b, Wrong):
        return isinstance(a, Wrong) and isinstance(b, Wrong) and a.mistake == b.mistake
    if _is_array(a) or _is_array(b):
        return _is_array(a) and _is_array(b) and _same_array(a, b, close)
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return _same_number(a, b, close)
    if isinstance(a, (str, bytes)) or isinstance(b, (str, bytes)):
        return type(a) is type(b) and a == b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(alike(a[key], b[key], close) for key in a)
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return len(a) == len(b) and all(alike(x, y, close) for x, y in zip(a, b, strict=True))
    if isinstance(a, Set) and isinstance(b, Set):
        return a == b
    if dataclasses.is_dataclass(a) and type(a) is type(b) and not isinstance(a, Stopped):
        names = [f.name for f in dataclasses.fields(a) if f.compare]
        return all(alike(getattr(a, name), getattr(b, name), close) for name in names)
    return type(a) is type(b) and bool(a == b)


def _same_number(a: float, b: float, close: float) -> bool:
    if a != a or b != b:
        return a != a and b != b
    return a == b or math.isclose(a, b, rel_tol=close, abs_tol=NOTHING)


def _is_array(thing: Any) -> bool:
    """Whether it is a tensor or an array; to find out, neither package is imported."""
    kinds = (("torch", "Tensor"), ("numpy", "ndarray"))
    loaded = [getattr(sys.modules[m], kind) for m, kind in kinds if m in sys.modules]
    return isinstance(thing, tuple(loaded))


def _same_array(a: Any, b: Any, close: float) -> bool:
    import torch

    try:
        a, b = (torch.as_tensor(x).detach() for x in (a, b))
    except TypeError:  # an array of strings or objects
        return a.shape == b.shape and alike(a.tolist(), b.tolist(), close)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    return torch.allclose(a.double(), b.double(), rtol=close, atol=NOTHING, equal_nan=True)


def rounded(got: Any, want: Any, zero: bool = False) -> tuple[float, float] | None:
    """The first two numbers that differ, if every number of `got` is its own of `want`, rounded.

    A 0 has many reasons, so it counts as a rounded number only with `zero`.
    """
    try:
        differ = [(a, b) for a, b in _pairs(got, want) if not _same_number(a, b, SAME)]
    except (TypeError, ValueError):
        return None
    return differ[0] if differ and all(_is_rounded(a, b, zero) for a, b in differ) else None


def _pairs(a: Any, b: Any) -> list[tuple[float, float]]:
    """The numbers of two outcomes that are alike in all else, side by side.

    Raises `TypeError` or `ValueError` if they are not alike.
    """
    if _is_array(a) and _is_array(b):
        return _pairs(a.tolist(), b.tolist())
    numbers = [isinstance(x, (int, float)) and not isinstance(x, bool) for x in (a, b)]
    if all(numbers):
        return [(float(a), float(b))]
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        return [pair for key in a for pair in _pairs(a[key], b[key])]
    lists = [isinstance(x, Sequence) and not isinstance(x, (str, bytes)) for x in (a, b)]
    if all(lists):
        return [pair for x, y in zip(a, b, strict=True) for pair in _pairs(x, y)]
    if any(numbers) or not alike(a, b):
        raise TypeError
    return []


def _is_rounded(a: float, b: float, zero: bool) -> bool:
    """Whether `a` is `b` cut to whole numbers, to some digits, or to the bits of fp16 or bf16."""
    if a == 0 or not (math.isfinite(a) and math.isfinite(b)):
        return zero and a == 0 and abs(b) < 1
    mantissa, exponent = math.frexp(b)
    bits = (math.ldexp(round(mantissa * 2**n), exponent - n) for n in (8, 11))
    decimals = (round(b, n) for n in range(9))
    cut = (math.trunc(b * 10**n) / 10**n for n in range(9) if abs(b) < 2**53 / 10**n)
    digits = (float(f"{b:.{n}g}") for n in range(1, 9))
    return a in (float(math.trunc(b)), *bits, *decimals, *cut, *digits)


def shortened(a: float, b: float) -> bool:
    """Whether `a` is `b` cut to some decimals, and no other mistake is likely to give that number.

    For a check that sees one case alone. A sum without its smallest parts is `b` with fewer
    digits, too, and of a small number cut to a whole one nothing is left.
    """
    if not (math.isfinite(a) and math.isfinite(b)) or _same_number(a, b, SAME):
        return False
    first = 0 if abs(b) >= 100 else 1
    return any(math.isclose(a, round(b, n), rel_tol=SAME) for n in range(first, 9) if round(b, n))
