"""Formats of floating-point numbers: what a row of bits means, and where numbers get lost.

A format is (exponent bits, mantissa bits, infinities). With infinities, the largest exponent means
infinity or NaN (IEEE Std 754-2019, section 3.4). Without, as in e4m3 of P. Micikevicius et al.,
"FP8 Formats for Deep Learning", arXiv:2209.05433, it means numbers as any other does, and only all
ones are NaN. Plain functions on numbers: they also run in the browser.
"""

import math

FORMATS = {
    "fp32": (8, 23, True),
    "bf16": (8, 7, True),
    "fp16": (5, 10, True),
    "e5m2": (5, 2, True),
    "e4m3": (4, 3, False),
}


def decode(bits, exponent_bits, mantissa_bits, infinities=True):
    """Return the value of a row of bits, read as a whole number, with the sign in front."""
    mantissa = bits % 2**mantissa_bits
    exponent = bits // 2**mantissa_bits % 2**exponent_bits
    sign = -1.0 if bits // 2 ** (mantissa_bits + exponent_bits) % 2 else 1.0
    fraction, top = mantissa / 2**mantissa_bits, 2**exponent_bits - 1
    if exponent == top and infinities:
        return math.nan if mantissa else sign * math.inf
    if exponent == top and mantissa == 2**mantissa_bits - 1:
        return math.nan
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias)
    return sign * math.ldexp(1 + fraction, exponent - bias)


def limits(name):
    """Return what a format of `FORMATS` reaches.

    Returns
    -------
    dict
        `largest`, `smallest_normal` (below it digits go missing), `smallest` (below half of it
        nothing is left), and `eps`, from 1 to the next number.
    """
    exponent_bits, mantissa_bits, infinities = FORMATS[name]
    normal = 2 - 2 ** (exponent_bits - 1)
    # the last row of bits before infinity, or before the one NaN
    last = 2 ** (exponent_bits + mantissa_bits) - (2**mantissa_bits if infinities else 1) - 1
    return {
        "largest": decode(last, exponent_bits, mantissa_bits, infinities),
        "smallest_normal": math.ldexp(1.0, normal),
        "smallest": math.ldexp(1.0, normal - mantissa_bits),
        "eps": math.ldexp(1.0, -mantissa_bits),
    }


def round_to(x, name):
    """Round to the nearest number of a format, of two equally near ones to the even one.

    Beyond the largest is infinity. Where a format has none it is NaN, unless the cast saturates:
    torch's cast to e4m3 gave NaN up to torch 2.11, and gives the largest number since
    (https://github.com/pytorch/pytorch/pull/178817).
    """
    if x != x or x == 0 or (math.isinf(x) and FORMATS[name][2]):
        return x
    ends = limits(name)
    if not math.isinf(x):
        exponent = math.frexp(x)[1] - 1
        # the distance of neighbours at x, below the smallest normal number that of the smallest
        unit = max(math.ldexp(ends["eps"], exponent), ends["smallest"])
        x = round(x / unit) * unit
    if abs(x) <= ends["largest"]:
        return x
    return math.copysign(math.inf, x) if FORMATS[name][2] else math.nan


def share_below(limit, median_power, spread):
    """Return the share of log-normal sizes below `limit`.

    Parameters
    ----------
    limit
        Above 0.
    median_power
        log2 of the median.
    spread
        Standard deviation of log2.
    """
    z = (math.log2(limit) - median_power) / spread
    return 0.5 * math.erfc(-z / math.sqrt(2))


def lost_gradients(scale_power, median_power, spread):
    """Say what a loss scale saves, for the sliders of a what-if.

    Sizes of gradients are drawn as log-normal, which real ones are only roughly.

    Parameters
    ----------
    scale_power
        log2 of the loss scale.
    median_power
        log2 of the median gradient.
    spread
        Standard deviation of log2 of the gradients.

    Returns
    -------
    dict
        `curves` of the share lost (to 0 or to infinity) over the scale in per cent, `point` (fp16
        at this scale), and `says`.
    """
    curves = {
        name: [[power, 100 * sum(_lost(name, power, median_power, spread))] for power in range(33)]
        for name in ("bf16", "fp16")
    }
    below, above = _lost("fp16", scale_power, median_power, spread)
    return {
        "curves": curves,
        "point": [scale_power, 100 * (below + above)],
        "x": "log2 of the loss scale",
        "y": "lost, %",
        "says": f"Simulated, fp16 at scale 2^{scale_power}: {_percent(below)} of the gradients "
        + f"become 0 and {_percent(above)} infinite.",
    }


def _lost(name, scale_power, median_power, spread):
    """Shares of scaled gradients that become 0, and that become infinite."""
    ends, median = limits(name), median_power + scale_power
    zero = share_below(ends["smallest"] / 2, median, spread)
    over = ends["largest"] * (1 + ends["eps"] / 4)  # from here on a number is rounded up
    return zero, share_below(1 / over, -median, spread)


def _percent(share):
    return f"{100 * share:.2g} %" if share > 1e-5 else "less than 0.001 %"
