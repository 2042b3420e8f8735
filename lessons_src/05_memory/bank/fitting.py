"""More answers to `largest_batch`, for the tests alone."""

import numpy as np

from ..exercises.fitting import FIT, largest_batch, line

RETURN = f"return max(0, {FIT})"


def doubles_until_full(budget, small, large):
    states, each = line(small, large)
    b = 1
    while states + 2 * b * each <= budget:
        b *= 2
    return b if states + b * each <= budget else 0


def in_numpy(budget, small, large):
    (few, at_few), (many, at_many) = small, large
    each = np.int64(at_many - at_few) // np.int64(many - few)
    return np.maximum(0, few + (budget - at_few) // each)


def counts_up(budget, small, large):
    states, each = line(small, large)
    b = 0
    while states + (b + 1) * each <= budget:
        b += 1
    return b


def whole_numbers_only(budget, small, large):
    room = (budget - small[1]) * (large[0] - small[0])
    return max(0, small[0] + room // (large[1] - small[1]))


ALSO_WRONG = [
    ("rounded_up", {FIT: "math.ceil((budget - none) / each)"}),
    ("not_whole", {RETURN: "return (budget - none) / each"}),
    ("no_number", lambda budget, small, large: large[1] <= budget),
    ("too_large", lambda *case: largest_batch(*case) + 2),
    ("too_small", lambda budget, *measured: largest_batch(0.9 * budget, *measured)),
    ("too_small", doubles_until_full),
    ("loops", {RETURN: "while small[1] <= budget:\n        each += 1"}),
]
ALSO_RIGHT = [in_numpy, counts_up, whole_numbers_only]
