"""More answers to `largest_batch`, for the tests alone."""

import math

import numpy as np

from ..exercises.fitting import largest_batch, line


def first_that_does_not_fit(budget, small, large):
    states, each = line(small, large)
    b = 0
    while states + b * each <= budget:
        b += 1
    return b


def always_up(budget, small, large):
    states, each = line(small, large)
    return max(0, math.ceil((budget - states) / each))


def with_a_fraction(budget, small, large):
    states, each = line(small, large)
    return (budget - states) / each


def doubles_until_full(budget, small, large):
    states, each = line(small, large)
    b = 1
    while states + 2 * b * each <= budget:
        b *= 2
    return b if states + b * each <= budget else 0


def never_moves_on(budget, small, large):
    b = 1
    while small[1] <= budget:
        b = max(b, small[0])
    return b


def in_numpy(budget, small, large):
    (few, at_few), (many, at_many) = small, large
    each = np.int64(at_many - at_few) // np.int64(many - few)
    return np.maximum(0, few + (budget - at_few) // each)


def counts_up(budget, small, large):
    return max(0, first_that_does_not_fit(budget, small, large) - 1)


def whole_numbers_only(budget, small, large):
    room = (budget - small[1]) * (large[0] - small[0])
    return max(0, small[0] + room // (large[1] - small[1]))


ALSO_WRONG = [
    ("one_too_many", first_that_does_not_fit),
    ("rounded_up", always_up),
    ("not_whole", with_a_fraction),
    ("no_number", lambda budget, small, large: large[1] <= budget),
    ("too_large", lambda *case: largest_batch(*case) + 2),
    ("too_small", lambda budget, *measured: largest_batch(0.9 * budget, *measured)),
    ("too_small", doubles_until_full),
    ("loops", never_moves_on),
]
ALSO_RIGHT = [in_numpy, counts_up, whole_numbers_only]
