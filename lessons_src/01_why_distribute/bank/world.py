"""More answers to `smallest_world`, for the tests alone."""

import math

from ..exercises.world import smallest_world
from ..what_if import DIVIDED, states_gb


def by_search(parameters, stage, memory_gb, activations_gb):
    for ranks in range(1, 100_000):
        if states_gb(parameters, stage, ranks) + activations_gb <= memory_gb + 1e-9:
            return ranks
    return None


def by_integers(parameters, stage, memory_gb, activations_gb):
    divided = int(DIVIDED[stage] * parameters)
    room = round((memory_gb - activations_gb) * 1e9 - (16 - DIVIDED[stage]) * parameters)
    if room < 0 or (room == 0 and divided):
        return None
    return max(1, -(-divided // room)) if room else 1


def less_than(parameters, stage, memory_gb, activations_gb):
    for ranks in range(1, 1000):
        if states_gb(parameters, stage, ranks) + activations_gb < memory_gb:
            return ranks


def rounded_up(parameters, stage, memory_gb, activations_gb):
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return math.ceil(DIVIDED[stage] * parameters / 1e9 / room)


def searches_on(parameters, stage, memory_gb, activations_gb):
    ranks = 1
    while states_gb(parameters, stage, ranks) + activations_gb > memory_gb:
        ranks += 1
    return ranks


def loops_at_once(parameters, stage, memory_gb, activations_gb):
    while True:
        stage += 1


def endless(*asked):
    found = smallest_world(*asked)
    return math.inf if found is None else found


ALSO_WRONG = [
    ("does_not_touch", less_than),
    ("nobody", rounded_up),
    ("searches_on", searches_on),
    ("loops", loops_at_once),
    ("below_one", endless),
]
ALSO_RIGHT = [by_search, by_integers]
