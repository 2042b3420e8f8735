"""Exercise 4.1: the value of a row of bits, checked row after row, the plainest first."""

import math  # noqa: F401 (the solution uses it)

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

decode = solution("decode", globals())

# fp16; then other formats: one in bf16, -3 in e5m2, the smallest of 6 bits, and their infinity
ROWS = (
    "0 01111 0000000000", "0 01111 1000000000", "1 10000 0000000000", "0 00000 0000000000",
    "0 00000 0000000001", "1 00000 1000000000", "0 11110 1111111111", "0 11111 0000000000",
    "1 11111 0000000000", "0 11111 1000000000",
)  # fmt: skip
OTHERS = ("0 01111111 0000000", "1 10000 10", "0 000 01", "0 111 00")
# words of the solution
BIAS, LAST = "2 ** (exponent_bits - 1) - 1", "exponent == 2**exponent_bits - 1"
BELOW, ZERO = "sign * fraction", "exponent == 0"


def case(row, *key):
    """A row of bits, its fields apart."""
    e, m = (len(field) for field in row.split()[1:])
    words = f"{row}: {e} exponent bits, {m} mantissa bits"
    return words, (int(row.replace(" ", ""), 2), e, m), *key


EXERCISE = Answer(
    decode,
    other="row",
    read=lambda value: to_number(value, nan=True),
    same=0.0,
    cases=[*map(case, ROWS), *(case(row, "literal") for row in OTHERS)],
    mistakes=[
        ("no_one", {"(1 + fraction)": "fraction"}),
        ("bias_too_large", {BIAS: "2 ** (exponent_bits - 1)"}),
        ("bias_too_small", {BIAS: "2 ** (exponent_bits - 1) - 2"}),
        ("no_bias", {BIAS: "0"}),
        ("whole_mantissa", {"1 + fraction": "1 + fraction * 2**mantissa_bits"}),
        ("no_mantissa", {"1 + fraction": "1"}),
        ("no_sign", {"sign = -1": "sign = 1"}),
        ("zero", {ZERO: "False"}),
        ("zero", {BELOW: "sign * (1 + fraction)"}),
        ("hidden_one", {ZERO: "bits == 0"}),
        ("hidden_one", {BELOW: "sign * ((bits > 0) + fraction)"}),
        ("gap", {"(1 - bias)": "-bias"}),
        ("flushed", {BELOW: "sign * (fraction > 0.01) * fraction"}),
        ("no_infinity", {LAST: "False"}),
        ("all_nan", {"math.nan if fraction else sign * math.inf": "math.nan"}),
        ("minus_infinity", {"sign * math.inf": "math.inf"}),
        ("nan", {"math.nan if fraction else ": ""}),
        ("nan", {LAST: f"{LAST} and not fraction"}),
        ("literal", {BIAS: "15"}),
        ("literal", {LAST: "exponent == 31"}),
    ],
    facts=lambda got, want, case, exponent_bits, mantissa_bits: {
        "row": case.split(":")[0], "e": exponent_bits, "m": mantissa_bits,
        "got": f"{got:.6g}", "want": f"{want:.6g}",
    },
    passed=lambda got: Passed((("rows of bits read", len(got), 14, ""),)),
)  # fmt: skip
