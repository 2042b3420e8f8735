"""More answers to `verdict`, for the tests only."""

from statistics import fmean, median

from dtlib.measure.noise import compare

from ..exercises.gains import by, verdict


def ratios_of(before, after):
    return [b / a for a, b in zip(before, after, strict=True)]


def counted(before, after):
    up = sum(b > a for a, b in zip(before, after, strict=True))
    down = sum(b < a for a, b in zip(before, after, strict=True))
    if len(before) > 1 and len(before) in (up, down):
        return "gain" if up else "loss"
    return "noise"


# Right.
def by_library(before, after):
    ratios = ratios_of(before, after)
    effect = compare(median(ratios), ratios)
    if not effect.real:
        return "noise"
    return "gain" if effect.times > 1 else "loss"


def by_products(before, after):
    ratios = sorted(ratios_of(before, after))
    first, last, half = ratios[0], ratios[-1], len(ratios) // 2
    middle = (ratios[half] + ratios[~half]) / 2
    if len(before) > 1 and middle * first > last:
        return "gain"
    return "loss" if len(before) > 1 and middle * last < first else "noise"


ALSO_WRONG = [
    ("agree", counted),
    ("median_only", by(lambda before, after: fmean(after) - fmean(before))),
    ("two", {"len(ratios) < 2": "len(before) <= 2"}),
    ("not_a_word", lambda before, after: verdict(before, after) == "gain"),
]
ALSO_RIGHT = [by_library, by_products]
