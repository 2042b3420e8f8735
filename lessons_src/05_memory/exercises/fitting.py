"""Exercise 5.4: the largest micro-batch within a budget, from two peaks that were measured."""

import math
import numbers

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.explanations import number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

# (states, bytes of a sample, the two micro-batches that were measured, room for so many, rest)
WORLDS = (
    (100, 10, (2, 6), 40, 0),  # every usual wrong way gives another number here
    (100, 10, (2, 6), 40, 8),
    (100, 10, (1, 2), 1, 0),
    (7_000, 300, (4, 8), 26, 299),
)
GIB = 2**30
# words of the solution
FIT, NONE = "int((budget - none) // each)", "none = small[1] - small[0] * each"

largest_batch = solution("largest_batch", globals())


def case(budget, small, large):
    peaks = " and ".join(f"{peak:,} bytes at b = {b}" for b, peak in (small, large))
    return f"a budget of {budget:,} bytes; measured {peaks}", (budget, small, large)


def known(states, each, measured, fits, rest):
    """The case of a world."""
    small, large = ((b, states + b * each) for b in measured)
    return case(states + fits * each + rest, small, large)


def read(value):
    """A whole number."""
    if value is None:
        raise Wrong("none")
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise Wrong("no_number", got=type(value).__name__)
    if not math.isfinite(value):
        raise Wrong("not_whole", got=str(float(value)))
    if value % 1:
        raise Wrong("not_whole", got=f"{value:.4g}")
    return float(value)


def line(small, large):
    """Bytes for no sample, and for each."""
    each = (large[1] - small[1]) / (large[0] - small[0])
    return small[1] - small[0] * each, each


def off(by, exact):
    """Recognises one sample too many or too few, where the budget is used up or is not."""

    def when(got, want, budget, small, large):
        states, each = line(small, large)
        return want > 0 and got == want + by and (states + want * each == budget) in exact

    return when


def above_large(got, budget, small, large):
    """The room above the larger peak, and how many samples that has."""
    return got == (budget - large[1]) // line(small, large)[1] and {"few": large[0]}


def facts(got, budget, small, large):
    states, each = line(small, large)
    return {
        "got": number(got), "states": f"{states:.0f}", "each": f"{each:.0f}", "one": small[1],
        "step": large[1] - small[1], "budget": f"{budget:,}", "few": small[0], "many": large[0],
        "peak": f"{states + int(got) * each:,.0f}", "at_few": small[1],
        "share": number(small[1] / small[0]),
    }  # fmt: skip


EXERCISE = Answer(
    largest_batch,
    other="too_small",
    read=read,
    same=0.0,
    cases=[
        *(known(*world) for world in WORLDS),
        case(105, (1, 110), (2, 120)),  # nothing fits
        case(40, (1, 110), (2, 120)),
        case(80 * GIB, (2, 9 * GIB), (6, 17 * GIB)),
    ],
    mistakes=[
        Mistake("one_too_many", {FIT: f"{FIT} + 1"}, when=off(1, [True])),
        Mistake("rounded_up", {FIT: "round((budget - none) / each)"}, when=off(1, [False])),
        ("one_sample_off", {NONE: "none = small[1] - each"}),
        Mistake("to_spare", {FIT: "int(-((none - budget) // each)) - 1"}, when=off(-1, [True])),
        ("states_each_time", lambda budget, small, large: budget // (small[1] // small[0])),
        ("states_forgotten", {"(budget - none)": "budget"}),
        ("from_small", {"(budget - none)": "(budget - small[1])"}),
        Mistake("from_small", {"(budget - none)": "(budget - large[1])"}, when=above_large),
        ("mixed_points", {"none = small[1]": "none = large[1]"}),
        ("not_per_sample", {" / (large[0] - small[0])": ""}),
        ("in_proportion", lambda budget, small, large: budget * large[0] // large[1]),
        Mistake("negative", {f"max(0, {FIT})": FIT}, when=lambda got, want: got < 0 == want),
        Mistake("at_least_one", {"max(0": "max(1"}, when=lambda got, want: got > 0 == want),
        Mistake("too_large", when=lambda got, want: got > want),
        ("too_small", lambda budget, small, large: large[0] if large[1] <= budget else small[0]),
    ],
    facts=facts,
    passed=lambda got, want: Passed(
        (("80 GiB; 9 GiB at b = 2, 17 GiB at b = 6", int(got[-1]), int(want[-1]), "samples"),)
    ),
)
