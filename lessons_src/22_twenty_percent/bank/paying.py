"""More answers to `break_even`, for the tests alone."""

import math

from ..exercises.paying import break_even


def none_at_all(compile_seconds, before, after):
    if after < before:
        return math.ceil(compile_seconds / (before - after))
    return None


def floor_of_the_negative(compile_seconds, before, after):
    saved = before - after
    return -(-compile_seconds // saved) if saved > 0 else float("inf")


def counts_steps(compile_seconds, before, after):
    steps = 0
    while steps < 10_000:
        if compile_seconds + steps * after <= steps * before and after < before:
            return steps
        steps += 1
    return math.inf


def divides_by_the_price(compile_seconds, before, after):
    steps = break_even(compile_seconds, before, after)
    return steps if 1 / compile_seconds else 0


ALSO_WRONG = [
    ("raised", divides_by_the_price),
    ("none_for_never", none_at_all),
    ("never", lambda cost, before, after: break_even(cost, before, after) if after < before else 0),
    ("negative", {"after >= before": "0.25 >= before"}),
    ("steps", {"(before - after)": "(before - 0.25)"}),
    ("steps", lambda cost, before, after: 100),
]
ALSO_RIGHT = [floor_of_the_negative, counts_steps]
