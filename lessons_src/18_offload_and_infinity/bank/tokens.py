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


def by_one_token(parameters, moved, bandwidth, speed, efficiency):
    """Rounds in another place, and would need one token more wherever the result is whole."""
    return math.ceil(moved / bandwidth / (1 / efficiency - 1) / (6 * parameters / speed))


ALSO_WRONG = [
    ("several", lambda *given: (fewest_tokens(*given),)),
    ("none", lambda *given: print(fewest_tokens(*given))),
    ("unrecognised", lambda *given: 7 * fewest_tokens(*given) + 3),
    ("one", lambda *given: 1),
    ("percent", lambda p, m, b, s, e: math.ceil(m / b * e / (100 - e) * s / (6 * p))),
    ("brackets", lambda p, m, b, s, e: math.ceil((m / b * e / 1 - e) * s / (6 * p))),
    ("no_model", lambda p, m, *given: fewest_tokens(p, m * p, *given)),
    ("twelve", lambda p, m, b, s, e: fewest_tokens(2 * p, m, b, s, e)),
    ("both_ways", lambda p, m, *given: fewest_tokens(p, 2 * m, *given)),
    ("too_few_by_one", lambda *given: fewest_tokens(*given) - 1),
]
ALSO_RIGHT = [by_rates, by_the_step, by_one_token]
