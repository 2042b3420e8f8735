"""Answers to lesson 04's exercise on bits that its checks must refuse, and others to accept.

Each wrong answer stands under the key of the sentence that it must get.
"""

import math
import struct

import torch


def parts(bits, exponent_bits, mantissa_bits):
    """Sign, exponent, fraction and bias, as the stub takes them apart."""
    fraction = bits % 2**mantissa_bits / 2**mantissa_bits
    exponent = bits // 2**mantissa_bits % 2**exponent_bits
    sign = -1 if bits >> (exponent_bits + mantissa_bits) else 1
    return sign, exponent, fraction, 2 ** (exponent_bits - 1) - 1


def special(exponent, exponent_bits, fraction, sign):
    if exponent == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    return None


# --- 4.1 decode -----------------------------------------------------------------------------


def no_hidden_one(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    return sign * fraction * 2.0 ** (exponent - bias)


def bias_of_sixteen(bits, e, m):
    sign, exponent, fraction, _ = parts(bits, e, m)
    return sign * (1 + fraction) * 2.0 ** (exponent - 2 ** (e - 1))


def bias_of_fourteen(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias + 1)


def without_bias(bits, e, m):
    sign, exponent, fraction, _ = parts(bits, e, m)
    return sign * (1 + fraction) * 2.0**exponent


def mantissa_as_it_is(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    return sign * (1 + fraction * 2**m) * 2.0 ** (exponent - bias)


def forgets_the_mantissa(bits, e, m):
    sign, exponent, _, bias = parts(bits, e, m)
    return sign * 2.0 ** (exponent - bias)


def forgets_the_sign(bits, e, m):
    _, exponent, fraction, bias = parts(bits, e, m)
    return (1 + fraction) * 2.0 ** (exponent - bias)


def one_rule_for_all(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


def zero_alone(bits, e, m):
    return 0.0 if bits == 0 else one_rule_for_all(bits, e, m)


def exponent_of_zero(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    if exponent == 0:
        return sign * fraction * 2.0**-bias
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


def flushes(bits, e, m):
    _, exponent, _, _ = parts(bits, e, m)
    return 0.0 if exponent == 0 else one_rule_for_all(bits, e, m)


def goes_on_past_the_largest(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


def nan_for_all_ones(bits, e, m):
    if parts(bits, e, m)[1] == 2**e - 1:
        return math.nan
    return goes_on_past_the_largest(bits, e, m)


def infinity_without_sign(bits, e, m):
    _, exponent, fraction, _ = parts(bits, e, m)
    if exponent == 2**e - 1:
        return math.nan if fraction else math.inf
    return goes_on_past_the_largest(bits, e, m)


def infinity_for_all_ones(bits, e, m):
    sign, exponent, _, _ = parts(bits, e, m)
    return sign * math.inf if exponent == 2**e - 1 else goes_on_past_the_largest(bits, e, m)


def literals_of_fp16(bits, e, m):
    sign, exponent, fraction, _ = parts(bits, e, m)
    if exponent == 31:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * fraction * 2.0**-14
    return sign * (1 + fraction) * 2.0 ** (exponent - 15)


def hidden_one_below_too(bits, e, m):
    """The exponent of subnormal numbers is right, and the hidden 1 is left in them."""
    sign, exponent, fraction, bias = parts(bits, e, m)
    if exponent == 0:
        return sign * (1 + fraction) * 2.0 ** (1 - bias)
    return decodes_by_hand(bits, e, m)


def returns_text(bits, e, m):
    return f"{one_rule_for_all(bits, e, m)} as a float"


def never_ends(bits, e, m):
    while bits:
        e += 1
    return float(bits)


def drops_a_bit_of_subnormals(bits, e, m):
    _, exponent, _, _ = parts(bits, e, m)
    return decodes_by_hand(bits & ~(2 ** (m - 1)) if exponent == 0 else bits, e, m)


# Right.
def decodes_by_hand(bits, e, m):
    sign, exponent, fraction, bias = parts(bits, e, m)
    found = special(exponent, e, fraction, sign)
    if found is not None:
        return found
    return sign * math.ldexp(fraction + (exponent > 0), max(exponent, 1) - bias)


def through_fp64(bits, e, m):
    """Every format of IEEE is contained in fp64: move the fields there."""
    sign, exponent, fraction, bias = parts(bits, e, m)
    if exponent == 0:
        return torch.tensor(sign * fraction * 2.0 ** (1 - bias), dtype=torch.float64)
    wide = 2047 if exponent == 2**e - 1 else exponent - bias + 1023
    row = (sign < 0) << 63 | wide << 52 | int(fraction * 2**52)
    return struct.unpack(">d", row.to_bytes(8, "big"))[0]


WRONG = [
    ("decode", "no_one", no_hidden_one),
    ("decode", "bias_too_large", bias_of_sixteen),
    ("decode", "bias_too_small", bias_of_fourteen),
    ("decode", "no_bias", without_bias),
    ("decode", "whole_mantissa", mantissa_as_it_is),
    ("decode", "no_mantissa", forgets_the_mantissa),
    ("decode", "no_sign", forgets_the_sign),
    ("decode", "zero", one_rule_for_all),
    ("decode", "hidden_one", zero_alone),
    ("decode", "gap", exponent_of_zero),
    ("decode", "flushed", flushes),
    ("decode", "no_infinity", goes_on_past_the_largest),
    ("decode", "all_nan", nan_for_all_ones),
    ("decode", "minus_infinity", infinity_without_sign),
    ("decode", "nan", infinity_for_all_ones),
    ("decode", "literal", literals_of_fp16),
    ("decode", "row", drops_a_bit_of_subnormals),
    ("decode", "kind", returns_text),
    ("decode", "loops", never_ends),
]

ALSO_WRONG = [
    ("decode", "zero", hidden_one_below_too),
    ("decode", "none", lambda bits, e, m: None if bits else 0.0),
    ("decode", "kind", lambda bits, e, m: [1.0, 2.0]),
    ("decode", "raised", lambda bits, e, m: 1 / (bits - bits)),
    ("decode", "row", lambda bits, e, m: math.nan),
    ("decode", "row", lambda bits, e, m: -1.0),
]

RIGHT = [
    ("decode", decodes_by_hand),
    ("decode", through_fp64),
]
