"""Answers to lesson 01's exercises on the smallest world: to be refused, or accepted."""

import math

# --- smallest_world -------------------------------------------------------------------------------

DIVIDED = {0: 0, 1: 12, 2: 14, 3: 16}


def holds(parameters, stage, ranks):
    divided = DIVIDED[stage]
    return (16 - divided + divided / ranks) * parameters / 1e9


def by_search(parameters, stage, memory_gb, activations_gb):
    for ranks in range(1, 100_000):
        if holds(parameters, stage, ranks) + activations_gb <= memory_gb + 1e-9:
            return ranks
    return None


def by_integers(parameters, stage, memory_gb, activations_gb):
    divided = int(DIVIDED[stage] * parameters)
    room = round((memory_gb - activations_gb) * 1e9 - (16 - DIVIDED[stage]) * parameters)
    if room < 0 or (room == 0 and divided):
        return None
    return max(1, -(-divided // room)) if room else 1


def ceiling(parameters, stage, memory_gb, activations_gb, least=1):
    divided = DIVIDED[stage]
    room = memory_gb - activations_gb - (16 - divided) * parameters / 1e9
    if room < 0 or (divided and room == 0):
        return None
    return max(least, math.ceil(divided * parameters / 1e9 / room)) if divided else 1


def rounded(parameters, stage, memory_gb, activations_gb):
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return round(DIVIDED[stage] * parameters / 1e9 / room)


def at_least_one_rounded(parameters, stage, memory_gb, activations_gb):
    return max(1, rounded(parameters, stage, memory_gb, activations_gb))


def less_than(parameters, stage, memory_gb, activations_gb):
    for ranks in range(1, 1000):
        if holds(parameters, stage, ranks) + activations_gb < memory_gb:
            return ranks


def fraction(parameters, stage, memory_gb, activations_gb):
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return max(1, DIVIDED[stage] * parameters / 1e9 / room)


def states_only(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb, 0)


def added_room(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb + activations_gb, 0)


def shared_activations(parameters, stage, memory_gb, activations_gb):
    return math.ceil((16 * parameters / 1e9 + activations_gb) / memory_gb)


def everything_divided(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, 3, memory_gb, activations_gb)


def stage_two(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, 2 if stage == 1 else stage, memory_gb, activations_gb)


def powers_of_two(parameters, stage, memory_gb, activations_gb):
    for k in range(12):
        if holds(parameters, stage, 2**k) + activations_gb <= memory_gb:
            return 2**k


def copies(parameters, stage, memory_gb, activations_gb):
    if stage == 0:
        return math.ceil((16 * parameters / 1e9 + activations_gb) / memory_gb)
    return ceiling(parameters, stage, memory_gb, activations_gb)


def gives_up(parameters, stage, memory_gb, activations_gb):
    if 16 * parameters / 1e9 + activations_gb > memory_gb:
        return None
    return 1


def searches_on(parameters, stage, memory_gb, activations_gb):
    ranks = 1
    while holds(parameters, stage, ranks) + activations_gb > memory_gb:
        ranks += 1
    return ranks


def loops_at_once(parameters, stage, memory_gb, activations_gb):
    ranks = 1
    while True:
        ranks += 1


def divides_by_no_room(parameters, stage, memory_gb, activations_gb):
    if stage == 0:
        return ceiling(parameters, stage, memory_gb, activations_gb)
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return max(1, math.ceil(DIVIDED[stage] * parameters / 1e9 / room)) if room >= 0 else None


def no_number(parameters, stage, memory_gb, activations_gb):
    found = ceiling(parameters, stage, memory_gb, activations_gb)
    return float("inf") if found is None else found


def zero_for_none(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb, activations_gb) or 0


def rounded_up(parameters, stage, memory_gb, activations_gb):
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return math.ceil(DIVIDED[stage] * parameters / 1e9 / room)


def one_for_none(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb, activations_gb) or 1


def always_one(parameters, stage, memory_gb, activations_gb):
    return 1


def by_eights(parameters, stage, memory_gb, activations_gb):
    found = ceiling(parameters, stage, memory_gb, activations_gb)
    return found and 8 * math.ceil(found / 8)


WRONG = [
    ("smallest_world", "nobody", rounded),
    ("smallest_world", "does_not_touch", less_than),
    ("smallest_world", "rounded_down", at_least_one_rounded),
    ("smallest_world", "part_of_a_gpu", fraction),
    ("smallest_world", "no_activations", states_only),
    ("smallest_world", "activations_help", added_room),
    ("smallest_world", "activations_divided", shared_activations),
    ("smallest_world", "all_divided", everything_divided),
    ("smallest_world", "stage_2", stage_two),
    ("smallest_world", "power_of_two", powers_of_two),
    ("smallest_world", "copies", copies),
    ("smallest_world", "gave_up", gives_up),
    ("smallest_world", "no_room_raised", divides_by_no_room),
    ("smallest_world", "searches_on", searches_on),
    ("smallest_world", "loops", loops_at_once),
    ("smallest_world", "below_one", zero_for_none),
    ("smallest_world", "never", one_for_none),
    ("smallest_world", "too_few", always_one),
    ("smallest_world", "too_many", by_eights),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("smallest_world", "below_one", no_number),
    ("smallest_world", "nobody", rounded_up),
]

RIGHT = [
    ("smallest_world", by_search),
    ("smallest_world", by_integers),
]
