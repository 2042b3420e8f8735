"""More answers to `gain`, for the tests only."""

from statistics import median, pstdev, quantiles

from ..exercises.pairs import gain


def ratios_of(before, after):
    return [b / a for b, a in zip(before[1:], after[1:], strict=True)]


def after_over_before(before, after):
    ratios = [1 / ratio for ratio in ratios_of(before, after)]
    return median(ratios), min(ratios), max(ratios)


def ends_from_the_deviation(before, after):
    spread = pstdev(ratios_of(before, after))
    return [gain(before, after)[0] + k * spread for k in (0, -1, 1)]


def rounds(digits):
    return lambda before, after: tuple(round(x, digits) for x in gain(before, after))


def leaves_out_two(before, after):
    ratios = ratios_of(before, after)
    rest = ratios[1:] or ratios
    return median(rest), min(rest), max(rest)


def throws_the_first_away(before, after):
    before.pop(0)
    after.pop(0)
    return gain([0, *before], [1, *after])


def each_with_each(before, after):
    ratios = [b / a for b in before[1:] for a in after[1:]]
    return median(ratios), min(ratios), max(ratios)


def by_quantiles(before, after):
    ratios = sorted(ratios_of(before, after))
    return [quantiles([*ratios, *ratios], n=2)[0], ratios[0], ratios[-1]]


def by_inverse(before, after):
    inverse = sorted(a / b for b, a in list(zip(before, after, strict=True))[1:])
    n = len(inverse)
    middle = (1 / inverse[n // 2] + 1 / inverse[(n - 1) // 2]) / 2
    return middle, 1 / inverse[-1], 1 / inverse[0]


ALSO_WRONG = [
    ("upside_down", after_over_before),
    ("warm_up", lambda before, after: gain([0, *before], [1, *after])),
    ("gain", lambda before, after: (2 * gain(before, after)[0], *gain(before, after)[1:])),
    ("gain", {"len(ratios) // 2": "round(len(ratios) / 2)"}),
    ("gain", lambda before, after: [ratios_of(before, after)[k] for k in (0, -1)] + [1.25]),
    *(("rounded", rounds(digits)) for digits in (0, 1, 2, 3, 4)),
    ("two_left_out", leaves_out_two),
    ("crossed", each_with_each),
    ("ends", ends_from_the_deviation),
    ("changed", throws_the_first_away),
    ("one_number", lambda before, after: gain(before, after)[0]),
    ("not_three", lambda before, after: sorted(ratios_of(before, after))),
]
ALSO_RIGHT = [by_quantiles, by_inverse]
LADDER = (
    """def gain(before, after):
    ratios = sorted(b / a for b, a in zip(before, after))
    middle = len(ratios) // 2
    return (ratios[middle] + ratios[~middle]) / 2, ratios[0], ratios[-1]
""",
    """def gain(before, after):
    import statistics

    ratios = [b / a for b, a in zip(before, after)]
    return statistics.median(ratios), min(ratios), max(ratios)
""",
)
