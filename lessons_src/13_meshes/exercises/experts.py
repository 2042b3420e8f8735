"""Exercise 13.6: tokens that find no place in their expert, and places that stay empty."""

import math
from collections import Counter

from dtlib.learn.answers import Answer
from dtlib.learn.readers import several
from dtlib.learn.solutions import solution

# words of the solution
CAPACITY = "math.ceil(factor * len(chosen) / experts)"
LOADS = "[chosen.count(e) for e in range(experts)]"
DROPPED = "sum(max(0, load - capacity) for load in loads)"
EMPTY = "sum(max(0, capacity - load) for load in loads)"

dropped_tokens = solution("dropped_tokens", globals())


def case(chosen, experts, factor):
    words = f"choices {' '.join(map(str, chosen))} of {experts} experts, capacity factor {factor:g}"
    return words, (chosen, experts, factor)


def capacity_of(chosen, experts, factor):
    return math.ceil(factor * len(chosen) / experts)


def net(chosen, experts, factor):
    """What all places together lack or have left."""
    room = experts * capacity_of(chosen, experts, factor) - len(chosen)
    return max(0, -room), max(0, room)


def chosen_alone(chosen, experts, factor):
    """Experts that nobody chose do not count."""
    capacity, loads = capacity_of(chosen, experts, factor), Counter(chosen).values()
    return sum(max(0, n - capacity) for n in loads), sum(max(0, capacity - n) for n in loads)


def all_of_them(chosen, experts, factor):
    """An expert that is too full drops all of its tokens."""
    capacity, loads = capacity_of(chosen, experts, factor), Counter(chosen).values()
    return sum(n for n in loads if n > capacity), dropped_tokens(chosen, experts, factor)[1]


def facts(got, want, chosen, experts, factor):
    which = "dropped" if got[0] != want[0] else "empty"
    k = 0 if which == "dropped" else 1
    return {"which": "for the tokens dropped" if k == 0 else "for the empty places",
            "mine": f"{got[k]:g}", "right": f"{want[k]:g}", "fair": f"{len(chosen) / experts:.3g}",
            "tokens": len(chosen)}  # fmt: skip


EXERCISE = Answer(
    dropped_tokens,
    read=several(2, "two"),
    cases=[
        case([0, 0, 0, 0, 1, 0], 2, 1.25),
        case([0, 1, 0, 0, 0, 0], 2, 1),
        case([0, 0, 1, 0, 0, 0], 2, 1.5),
        case([2, 2, 2, 2, 2, 0, 1], 3, 1.5),
        case([3, 3, 3, 3, 1, 1, 1, 1, 1], 4, 1.25),
        case([0, 1, 2, 3], 4, 1),
        case([0, 2, 0, 1, 0], 4, 1.5),  # nobody chose the last one
    ],
    mistakes=[
        ("rounded_down", {CAPACITY: "math.floor(factor * len(chosen) / experts)"}),
        ("rounded", {CAPACITY: "round(factor * len(chosen) / experts)"}),
        ("rounded_first", {CAPACITY: "math.ceil(factor * math.ceil(len(chosen) / experts))"}),
        ("rounded_first", {CAPACITY: "math.ceil(factor * (len(chosen) // experts))"}),
        ("not_rounded", {CAPACITY: "factor * len(chosen) / experts"}),
        ("one_less", {LOADS: "[chosen.count(e) for e in range(experts - 1)]"}),
        ("one_less", {LOADS: "[chosen.count(e) for e in range(1, experts)]"}),
        ("highest", {LOADS: "[chosen.count(e) for e in range(max(chosen) + 1)]"}),
        ("no_factor", {CAPACITY: "math.ceil(len(chosen) / experts)"}),
        ("divided_by_factor", {CAPACITY: "math.ceil(len(chosen) / experts / factor)"}),
        ("of_all_tokens", {CAPACITY: "math.ceil(factor * len(chosen))"}),
        ("of_all_tokens", {CAPACITY: "len(chosen)"}),
        ("swapped", lambda *given: dropped_tokens(*given)[::-1]),
        ("net", net),
        ("chosen_alone", chosen_alone),
        ("all_of_them", all_of_them),
        ("experts", {DROPPED: "sum(load > capacity for load in loads)"}),
        ("experts", {EMPTY: "sum(load < capacity for load in loads)"}),
        ("worst", {DROPPED: "max(max(0, load - capacity) for load in loads)"}),
        ("kept", {DROPPED: "sum(min(load, capacity) for load in loads)"}),
        ("all_places", {EMPTY: "capacity * experts"}),
        ("quite_empty", {EMPTY: "sum(capacity for load in loads if load == 0)"}),
        ("negative", {DROPPED: "sum(load - capacity for load in loads)"}),
        ("negative", {EMPTY: "sum(capacity - load for load in loads)"}),
    ],
    facts=facts,
)
