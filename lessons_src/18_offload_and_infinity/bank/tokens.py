"""More answers to `fewest_tokens`, for the tests alone."""

import math

from ..exercises.tokens import fewest_tokens


# Right.
def by_rates(parameters, moved, bandwidth, speed, efficiency):
    each = 6 * parameters / speed  # seconds that a token takes
    share = efficiency / (1 - efficiency)
    return -int(-(moved / bandwidth * share) // each)


def by_the_step(parameters, moved, bandwidth, speed, efficiency):
    bus = moved / bandwidth
    step = bus / (1 - efficiency)
    tokens = math.ceil(round((step - bus) * speed / 6 / parameters, 6))
    return float(tokens)


ALSO_WRONG = [
    ("several", lambda *given: (fewest_tokens(*given),)),
    ("none", lambda *given: print(fewest_tokens(*given))),
    ("unrecognised", lambda *given: 7 * fewest_tokens(*given) + 3),
    ("too_few_by_one", lambda *given: fewest_tokens(*given) - 1),
]
ALSO_RIGHT = [by_rates, by_the_step]
