"""More answers to `decode`, for the tests alone."""

import math
import struct

import torch

from ..exercises.decode import decode

INFINITE = "exponent == 2**exponent_bits - 1"  # words of the solution


def parts(bits, e, m):
    """Sign, exponent, fraction and bias, as the stub takes them apart."""
    fraction, exponent = bits % 2**m / 2**m, bits // 2**m % 2**e
    return -1 if bits >> (e + m) else 1, exponent, fraction, 2 ** (e - 1) - 1


def by_ldexp(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    if exponent == 2**e - 1:
        return math.nan if fraction else sign * math.inf
    return sign * math.ldexp(fraction + (exponent > 0), max(exponent, 1) - bias)


def through_fp64(bits, e, m):
    """Every format of IEEE is contained in fp64: move the fields there."""
    sign, exponent, fraction, bias = parts(bits, e, m)
    if exponent == 0:
        return torch.tensor(sign * fraction * 2.0 ** (1 - bias), dtype=torch.float64)
    wide = 2047 if exponent == 2**e - 1 else exponent - bias + 1023
    row = (sign < 0) << 63 | wide << 52 | int(fraction * 2**52)
    return struct.unpack(">d", row.to_bytes(8, "big"))[0]


ALSO_WRONG = [
    ("row", {"sign * fraction *": "sign * (fraction % 0.5) *"}),
    ("row", lambda bits, e, m: math.nan),
    ("row", lambda bits, e, m: -1.0),
    ("zero", {"exponent == 0": "False", INFINITE: "False"}),
    ("literal",
     {INFINITE: "exponent == 31", "(1 - bias)": "-14", "(exponent - bias)": "(exponent - 15)"}),
    ("kind", lambda bits, e, m: f"{decode(bits, e, m)} as a float"),
    ("kind", lambda bits, e, m: [1.0, 2.0]),
    ("none", lambda bits, e, m: None if bits else 0.0),
    ("loops", {"fraction = bits": "while bits:\n        bits += 1\n    fraction = bits"}),
    ("raised", lambda bits, e, m: 1 / (bits - bits)),
]  # fmt: skip
ALSO_RIGHT = [by_ldexp, through_fp64]
