"""More answers to `dropped_tokens`, for the tests alone."""

import math

from ..exercises.experts import CAPACITY, DROPPED, EMPTY, LOADS, dropped_tokens


# Right.
def one_by_one(chosen, experts, factor):
    """Gives each token a place as it comes."""
    left = [math.ceil(factor * len(chosen) / experts)] * experts
    dropped = 0
    for expert in chosen:
        if left[expert]:
            left[expert] -= 1
        else:
            dropped += 1
    return dropped, sum(left)


def by_difference(chosen, experts, factor):
    """Places that there are, less the tokens that have one."""
    capacity = -int(-factor * len(chosen) // experts)
    kept = sum(min(capacity, chosen.count(e)) for e in range(experts))
    return [len(chosen) - kept, capacity * experts - kept]


ALSO_WRONG = [
    ("no_factor", {CAPACITY: "-(-len(chosen) // experts)"}),
    ("rounded_first", {CAPACITY: "math.ceil(len(chosen) // experts * factor)"}),
    ("rounded_first", {CAPACITY: "math.ceil(factor * round(len(chosen) / experts))"}),
    ("highest", {LOADS: "[chosen.count(e) for e in range(1 + sorted(chosen)[-1])]"}),
    ("of_all_tokens", {CAPACITY: "len([*chosen])"}),
    ("quite_empty", {EMPTY: "capacity * loads.count(0)"}),
    ("all_places", {EMPTY: "sum(capacity for load in loads)"}),
    ("kept", {DROPPED: "len(chosen) - sum(max(0, load - capacity) for load in loads)"}),
    ("two", lambda *given: dropped_tokens(*given)[0]),
    ("two", lambda *given: str(dropped_tokens(*given))),
    ("other", lambda *given: (7, 9)),
    ("none", lambda *given: print(dropped_tokens(*given))),
    ("raised", lambda chosen, experts, factor: chosen[experts * 99]),
]
ALSO_RIGHT = [one_by_one, by_difference]
