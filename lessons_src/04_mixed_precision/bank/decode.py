"""More answers to `decode`, for the tests alone."""

import math
import struct

import torch

from ..exercises.decode import decode


def parts(bits, e, m):
    """Sign, exponent, fraction and bias, as the stub takes them apart."""
    fraction, exponent = bits % 2**m / 2**m, bits // 2**m % 2**e
    return -1 if bits >> (e + m) else 1, exponent, fraction, 2 ** (e - 1) - 1


def never_ends(bits, e, m):
    while bits:
        e += 1
    return float(bits)


def drops_a_bit_of_subnormals(bits, e, m):
    return decode(bits if parts(bits, e, m)[1] else bits & ~(2 ** (m - 1)), e, m)


def literals_of_fp16(bits, e, m):
    sign, exponent, fraction, _ = parts(bits, e, m)
    if exponent == 31:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * fraction * 2.0**-14
    return sign * (1 + fraction) * 2.0 ** (exponent - 15)


def one_rule_for_all(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


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
    ("row", drops_a_bit_of_subnormals),
    ("row", lambda bits, e, m: math.nan),
    ("row", lambda bits, e, m: -1.0),
    ("zero", one_rule_for_all),
    ("literal", literals_of_fp16),
    ("kind", lambda bits, e, m: f"{one_rule_for_all(bits, e, m)} as a float"),
    ("kind", lambda bits, e, m: [1.0, 2.0]),
    ("none", lambda bits, e, m: None if bits else 0.0),
    ("loops", never_ends),
    ("raised", lambda bits, e, m: 1 / (bits - bits)),
]
ALSO_RIGHT = [by_ldexp, through_fp64]
