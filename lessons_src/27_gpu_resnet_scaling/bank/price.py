"""More answers to `cheapest_in_time`, for the tests alone."""

import math

import numpy as np

from ..exercises.price import IN_TIME, cheapest_in_time, cost_as, hours_of


def costs_in_time(rows, images, deadline):
    hours = hours_of(rows, images)
    return [(n * hours[n], n) for n in sorted(hours) if hours[n] <= deadline]


def first_but_one(rows, images, deadline):
    found = costs_in_time(rows, images, deadline)[:2]
    return found[-1][::-1] if found else None


def one_to_be_safe(rows, images, deadline):
    alone = hours_of(rows, images)[1]
    return math.ceil(alone / deadline) + 1, alone


def adds_a_column(rows, images, deadline):
    for row in rows:
        row["cost"] = row["gpus"] * images / row["images_per_second"]
    return cheapest_in_time(rows, images, deadline)


def times_gpus(rows, images, deadline):
    own = [{**row, "images_per_second": row["images_per_second"] * row["gpus"]} for row in rows]
    return cheapest_in_time(own, images, deadline)


def by_sorting(rows, images, deadline):
    found = costs_in_time(rows, images, deadline)
    return min(found)[::-1] if found else None


def by_loop(rows, images, deadline):
    best = None
    for row in rows:
        seconds = images / row["images_per_second"]
        if seconds > deadline * 3600:
            continue
        if best is None or row["gpus"] * seconds < best[0] * best[1]:
            best = [row["gpus"], seconds]
    return None if best is None else [best[0], best[0] * best[1] / 3600]


def in_an_array(rows, images, deadline):
    found = cheapest_in_time(rows, images, deadline)
    return found and np.array(found)


ALSO_WRONG = [
    ("dearer", first_but_one),
    ("not_measured", one_to_be_safe),
    ("pair", lambda *asked: (found := cheapest_in_time(*asked)) and found[0]),
    ("pair", lambda *asked: cheapest_in_time(*asked) or (None, None)),
    ("pair", lambda *asked: cheapest_in_time(*asked) or ()),
    ("none", lambda *asked: print(cheapest_in_time(*asked))),
    ("nearly", {IN_TIME: "hours <= deadline + 0.5"}),
    ("nearly", {IN_TIME: "hours // 1 <= deadline"}),
    ("cost", cost_as(lambda gpus, cost, hours: cost + 0.1)),
    ("changed", adds_a_column),
    ("rounded", cost_as(lambda gpus, cost, hours: math.ceil(cost))),
    ("rounded", cost_as(lambda gpus, cost, hours: round(cost, 3))),
    ("rounded", cost_as(lambda gpus, cost, hours: gpus * round(hours[gpus], 1))),
    ("times_gpus", times_gpus),
]
ALSO_RIGHT = [by_sorting, by_loop, in_an_array]
