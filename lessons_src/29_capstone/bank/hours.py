"""More answers to `node_hours`, for the tests only."""

import math

from ..exercises.hours import node_hours


def from_rates(flop, peak, mfu, efficiency, gpus_per_node, runs, reserve):
    flop_per_hour = peak * mfu * efficiency * gpus_per_node * 3600
    return -(-flop * runs * (1 + reserve) // flop_per_hour)


def step_by_step(flop, peak, mfu, efficiency, gpus_per_node, runs, reserve):
    seconds = flop / peak
    seconds /= mfu
    seconds /= efficiency
    hours = seconds / 3600 * runs
    hours += hours * reserve
    whole = int(hours / gpus_per_node)
    return whole + (hours / gpus_per_node > whole)


ALSO_WRONG = [
    ("not_whole", {"math.ceil(one_run * runs * (1 + reserve))": "one_run * runs + 0.5"}),
    ("other", lambda flop, peak, mfu, *more: 7),
    ("other", lambda *asked: 3 * node_hours(*asked) + 5),
    ("none", lambda *asked: print(node_hours(*asked))),
    ("kind", lambda *asked: str(node_hours(*asked))),
    ("one_more", lambda *asked: int(node_hours(*asked) + 1)),
    ("gpu_hours", lambda flop, peak, mfu, efficiency, gpus_per_node, runs, reserve: math.ceil(
        flop / peak / mfu / 3600 / efficiency * runs * (1 + reserve))),
]  # fmt: skip
ALSO_RIGHT = [from_rates, step_by_step]
