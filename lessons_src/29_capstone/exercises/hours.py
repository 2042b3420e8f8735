"""Exercise 29.3: the node-hours of a request."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import number
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

node_hours = solution("node_hours", globals())
TERA = 10**12


def case(words, hours, mfu=1.0, efficiency=1.0, gpus=1, runs=1, reserve=0.0, peak=100 * TERA):
    """Label a run that takes so many hours on a GPU at its peak."""
    said = f"a run of {hours:g} hours at the full peak of a GPU, MFU {mfu:g}, {words}"
    return said, (hours * 3600 * peak, peak, mfu, efficiency, gpus, runs, reserve)


def of(way):
    """A mistake: `way` computes the hours from those of one GPU alone."""
    return lambda flop, peak, mfu, *more: way(flop / (peak * mfu) / 3600, *more)


def read(got):
    """Read a whole number."""
    value = number(got)
    if value % 1:
        raise Wrong("not_whole", got=f"{value:g}")
    return value


ALONE, ONE = "flop / (peak * mfu) / 3600", "alone / efficiency / gpus_per_node"
LAST = "math.ceil(one_run * runs * (1 + reserve))"

EXERCISE = Answer(
    node_hours,
    read=read,
    # Each case adds one factor; all of them are exact in binary, or far from a whole number.
    cases=[
        case("nothing lost, 1 GPU to a node, 1 run, no reserve", 10),
        case("nothing lost, 1 GPU to a node, 1 run, no reserve", 10.0001),
        case("nothing lost, 1 GPU to a node, 1 run, no reserve", 10, 0.5),
        case("efficiency 0.75, 1 GPU to a node, 1 run, no reserve", 10, 0.5, 0.75),
        case("nothing lost, 4 GPUs to a node, 1 run, no reserve", 24, 0.5, 1, 4),
        case("nothing lost, 1 GPU to a node, 3 runs, no reserve", 10.25, 1, 1, 1, 3),
        case("nothing lost, 1 GPU to a node, 3 runs, a reserve of 0.25", 10, 1, 1, 1, 3, 0.25),
        case("efficiency 0.5, 8 GPUs to a node, 5 runs, a reserve of 0.5", 60.05, 0.25, 0.5, 8, 5,
             0.5, 989 * TERA),
    ],
    mistakes=[
        ("seconds", {ALONE: "flop / (peak * mfu)"}),
        ("minutes", {ALONE: "flop / (peak * mfu) / 60"}),
        ("days", {ALONE: "flop / (peak * mfu) / 86400"}),
        ("full_peak", {ALONE: "flop / peak / 3600"}),
        ("mfu_above", {ALONE: "flop / peak * mfu / 3600"}),
        ("no_loss", {ONE: "alone / gpus_per_node"}),
        ("multiplied", {ONE: "alone * efficiency / gpus_per_node"}),
        ("twice", {ONE: "alone / efficiency**2 / gpus_per_node"}),
        ("lost_share", {ONE: "alone * (2 - efficiency) / gpus_per_node"}),
        ("gpu_hours", {ONE: "alone / efficiency"}),
        ("times_gpus", {ONE: "alone / efficiency * gpus_per_node"}),
        ("one_run", {LAST: "math.ceil(one_run * (1 + reserve))"}),
        ("no_reserve", {LAST: "math.ceil(one_run * runs)"}),
        ("reserve_alone", {LAST: "math.ceil(one_run * runs * (reserve or 1))"}),
        ("reserve_below", {LAST: "math.ceil(one_run * runs / (1 - reserve))"}),
        ("reserve_once", {LAST: "math.ceil(one_run * (runs + reserve))"}),
        ("down", {LAST: "math.floor(one_run * runs * (1 + reserve))"}),
        ("nearest", {LAST: "round(one_run * runs * (1 + reserve))"}),
        ("each_up", {LAST: "math.ceil(math.ceil(one_run) * runs * (1 + reserve))"}),
        ("each_up", of(lambda alone, efficiency, gpus, runs, reserve: math.ceil(
            math.ceil(alone / efficiency) / gpus * runs * (1 + reserve)))),
        ("each_up", {LAST: "math.ceil(math.ceil(one_run * runs) * (1 + reserve))"}),
        Mistake("one_more", {LAST: "math.floor(one_run * runs * (1 + reserve)) + 1"},
                when=lambda got, want: got == want + 1),
    ],
    passed=lambda got, want: Passed(
        (("node-hours of the last request", f"{got[-1]:.0f}", f"{want[-1]:.0f}", ""),)
    ),
)  # fmt: skip
