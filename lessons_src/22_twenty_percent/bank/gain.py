"""Answers to lesson 22's exercise on gains of pairs: to be refused, and to be accepted."""

import statistics


def ratios_of(before, after):
    return [b / a for b, a in zip(before[1:], after[1:], strict=True)]


def right_gain(before, after):
    ratios = ratios_of(before, after)
    return statistics.median(ratios), min(ratios), max(ratios)


def with_ends(middle):
    """An answer whose ends are right and whose middle is `middle(before, after)`."""

    def answer(before, after):
        return (middle(before, after), *right_gain(before, after)[1:])

    answer.__name__ = middle.__name__
    return answer


def after_over_before(before, after):
    ratios = [a / b for b, a in zip(before[1:], after[1:], strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)


@with_ends
def time_saved_added(before, after):
    return 1 + statistics.median(1 - 1 / r for r in ratios_of(before, after))


@with_ends
def time_saved(before, after):
    return statistics.median(1 - 1 / r for r in ratios_of(before, after))


@with_ends
def only_what_is_more(before, after):
    return right_gain(before, after)[0] - 1


@with_ends
def in_per_cent(before, after):
    return 100 * (right_gain(before, after)[0] - 1)


@with_ends
def difference(before, after):
    return statistics.median(b - a for b, a in zip(before[1:], after[1:], strict=True))


def warm_up_too(before, after):
    ratios = sorted(b / a for b, a in zip(before, after, strict=True))
    return statistics.median(ratios), ratios[0], ratios[-1]


@with_ends
def median_over_median_with_warm_up(before, after):
    return statistics.median(before) / statistics.median(after)


@with_ends
def median_over_median(before, after):
    return statistics.median(before[1:]) / statistics.median(after[1:])


@with_ends
def total_over_total(before, after):
    return sum(before[1:]) / sum(after[1:])


@with_ends
def mean_over_mean(before, after):
    return statistics.mean(before[1:]) / statistics.mean(after[1:])


@with_ends
def best_of_each(before, after):
    return min(before[1:]) / min(after[1:])


@with_ends
def best_pair(before, after):
    return max(ratios_of(before, after))


@with_ends
def sorts_the_seconds(before, after):
    pairs = zip(sorted(before[1:]), sorted(after[1:]), strict=True)
    return statistics.median(b / a for b, a in pairs)


@with_ends
def mean_of_ratios(before, after):
    return statistics.mean(ratios_of(before, after))


@with_ends
def middle_of_the_list(before, after):
    ratios = ratios_of(before, after)
    return ratios[len(ratios) // 2]


@with_ends
def upper_middle(before, after):
    ratios = sorted(ratios_of(before, after))
    return ratios[len(ratios) // 2]


@with_ends
def twice_as_much(before, after):
    return 2 * right_gain(before, after)[0]


def large_end_first(before, after):
    middle, low, high = right_gain(before, after)
    return middle, high, low


def ends_with_the_warm_up(before, after):
    ratios = [b / a for b, a in zip(before, after, strict=True)]
    return right_gain(before, after)[0], min(ratios), max(ratios)


def ends_across_pairs(before, after):
    b, a = before[1:], after[1:]
    return right_gain(before, after)[0], min(b) / max(a), max(b) / min(a)


def ends_from_the_deviation(before, after):
    ratios = ratios_of(before, after)
    middle, spread = statistics.median(ratios), statistics.pstdev(ratios)
    return middle, middle - spread, middle + spread


def throws_the_first_away(before, after):
    before.pop(0)
    after.pop(0)
    return right_gain([0, *before], [1, *after])


def the_median_alone(before, after):
    return right_gain(before, after)[0]


def all_ratios(before, after):
    return sorted(ratios_of(before, after))


# Right.
def by_quantiles(before, after):
    ratios = sorted(ratios_of(before, after))
    return [statistics.quantiles([*ratios, *ratios], n=2)[0], ratios[0], ratios[-1]]


def by_inverse(before, after):
    inverse = sorted(a / b for b, a in list(zip(before, after, strict=True))[1:])
    n = len(inverse)
    middle = (1 / inverse[n // 2] + 1 / inverse[(n - 1) // 2]) / 2
    return middle, 1 / inverse[-1], 1 / inverse[0]


WRONG = [
    ("gain", "upside_down", after_over_before),
    ("gain", "saved", time_saved_added),
    ("gain", "excess", only_what_is_more),
    ("gain", "percent", in_per_cent),
    ("gain", "difference", difference),
    ("gain", "warm_up", warm_up_too),
    ("gain", "warm_unpaired", median_over_median_with_warm_up),
    ("gain", "unpaired", median_over_median),
    ("gain", "totals", total_over_total),
    ("gain", "best_of", best_of_each),
    ("gain", "best_pair", best_pair),
    ("gain", "sorted", sorts_the_seconds),
    ("gain", "mean", mean_of_ratios),
    ("gain", "unsorted", middle_of_the_list),
    ("gain", "middle", upper_middle),
    ("gain", "gain", twice_as_much),
    ("gain", "swapped", large_end_first),
    ("gain", "warm_ends", ends_with_the_warm_up),
    ("gain", "crossed_ends", ends_across_pairs),
    ("gain", "ends", ends_from_the_deviation),
    ("gain", "changed", throws_the_first_away),
    ("gain", "one_number", the_median_alone),
    ("gain", "not_three", all_ratios),
]
ALSO_WRONG = [
    ("gain", "saved", time_saved),
    ("gain", "totals", mean_over_mean),
]
RIGHT = [
    ("gain", by_quantiles),
    ("gain", by_inverse),
]
LADDER = (
    "gain",
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
