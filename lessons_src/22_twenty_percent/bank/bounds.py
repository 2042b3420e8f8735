"""More answers to `bound`, for the tests only."""

import math

from ..exercises.bounds import bound


def takes_them_out(levers):
    left = 1.0
    while levers:
        s, f = levers.pop()
        left += s / f - s
    return 1 / left


def part_by_part(levers):
    parts = [*levers, (1 - sum(s for s, _ in levers), 1)]
    return 1 / math.fsum(s / f for s, f in parts)


ALSO_WRONG = [
    ("infinity", lambda levers: 1 / (1 - sum(s * (f - 1) / f for s, f in levers))),
    ("bound", lambda levers: bound(levers) ** 2),
    ("changed", takes_them_out),
]
ALSO_RIGHT = [part_by_part, lambda levers: 1 / (1 - sum(s * (1 - 1 / f) for s, f in levers))]
