"""Exercise 4.1: the value of a row of bits, checked row after row, the plainest first."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong

from ..formats import decode

reference = functools.wraps(decode)(lambda bits, e, m: decode(bits, e, m))
Rows = tuple[tuple[str, str], ...]

ONE, HALF, TWO = "0 01111 0000000000", "0 01111 1000000000", "1 10000 0000000000"
ZERO, SMALLEST = "0 00000 0000000000", "0 00000 0000000001"
BELOW, LARGEST = "1 00000 1000000000", "0 11110 1111111111"
INFINITE, MINUS, NAN = "0 11111 0000000000", "1 11111 0000000000", "0 11111 1000000000"
# other formats: one in bf16, -3 in e5m2, the smallest of a format of 6 bits, its infinity
OTHERS = ("0 01111111 0000000", "1 10000 10", "0 000 01", "0 111 00")


def check(student: Callable[..., Any]) -> Passed:
    """Read rows of fp16, then of formats of another shape."""
    explain = {
        ONE: _one, HALF: _half, TWO: _sign, ZERO: _zero, SMALLEST: _smallest, BELOW: _nothing,
        LARGEST: _nothing, INFINITE: _infinite, MINUS: _infinite, NAN: _nan,
    }  # fmt: skip
    for row, reason in explain.items():
        got, want = _read(student, row)
        if not _same(got, want):
            raise reason(row, got, want) or _value(row, got, want)
    for row in OTHERS:
        got, want = _read(student, row)
        if not _same(got, want):
            e, m = _shape(row)
            facts = {"got": _words(got), "want": _words(want), "e": e, "m": m, "row": row}
            raise Wrong("literal", _case(row), **facts)
    return Passed((("rows of bits read", len(explain) + len(OTHERS), 14, ""),))


def _shape(row: str) -> tuple[int, int]:
    _, exponent, mantissa = row.split()
    return len(exponent), len(mantissa)


def _case(row: str) -> str:
    e, m = _shape(row)
    return f"{row}: {e} exponent bits, {m} mantissa bits"


def _read(student: Callable[..., Any], row: str) -> tuple[float, float]:
    bits, (e, m) = int(row.replace(" ", ""), 2), _shape(row)
    return to_number(ask(student, bits, e, m, case=_case(row)), _case(row), nan=True), decode(
        bits, e, m
    )


def _same(got: float, want: float) -> bool:
    return got == want or (math.isnan(got) and math.isnan(want))


def _words(value: float) -> str:
    return f"{value:.6g}"


def _value(row: str, got: float, want: float) -> Wrong:
    return Wrong("row", _case(row), row=row, got=_words(got), want=_words(want))


def _one(row: str, got: float, want: float) -> Wrong | None:
    key = {0.0: "no_one", 0.5: "bias_too_large", 2.0: "bias_too_small", 2.0**15: "no_bias"}.get(got)
    return Wrong(key, _case(row), got=_words(got)) if key else None


def _half(row: str, got: float, want: float) -> Wrong | None:
    if got == 513:
        return Wrong("whole_mantissa", _case(row), got=_words(got))
    return Wrong("no_mantissa", _case(row)) if got == 1 else None


def _sign(row: str, got: float, want: float) -> Wrong | None:
    return Wrong("no_sign", _case(row), got=_words(got)) if got == -want else None


def _zero(row: str, got: float, want: float) -> Wrong | None:
    return Wrong("zero", _case(row), got=_words(got)) if got in (2.0**-15, 2.0**-14) else None


def _smallest(row: str, got: float, want: float) -> Wrong | None:
    fraction = 2.0**-10
    if got in ((1 + fraction) * 2.0**-15, (1 + fraction) * 2.0**-14):
        return Wrong("hidden_one", _case(row), got=_words(got))
    if got == want / 2:
        return Wrong("gap", _case(row), got=_words(got))
    return Wrong("flushed", _case(row)) if got == 0 else None


def _nothing(row: str, got: float, want: float) -> Wrong | None:
    return None


def _infinite(row: str, got: float, want: float) -> Wrong | None:
    if abs(got) == 2.0**16:
        return Wrong("no_infinity", _case(row), got=_words(got))
    if math.isnan(got):
        return Wrong("all_nan", _case(row))
    return Wrong("minus_infinity", _case(row)) if got == -want else None


def _nan(row: str, got: float, want: float) -> Wrong | None:
    return Wrong("nan", _case(row), got=_words(got)) if math.isinf(got) or got == 98304 else None
