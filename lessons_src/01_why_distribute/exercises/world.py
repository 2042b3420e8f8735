"""Exercise 1.4: the fewest ranks that hold a model, from small numbers that tell mistakes apart."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.ratios import short
from dtlib.learn.readers import number
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

from ..what_if import states_gb

NAMES = ("NameError", "UnboundLocalError")
FOUND = "max(1, math.ceil(divided * parameters / 1e9 / room))"  # words of the solution
PART, LEFT = "divided * parameters / 1e9 / room", "- activations_gb"

smallest_world = solution("smallest_world", globals())


def case(stage, memory, activations=0.0, parameters=1e9):
    """With a billion parameters the states are 16 GB."""
    label = f"stage {stage}, {memory:g} GB a GPU, {activations:g} GB of activations"
    return f"Ψ = {parameters:g}, {label}", (parameters, stage, memory, activations)


def changed(way):
    """A mistake: the right number of ranks, changed in some way."""
    return lambda *asked: (found := smallest_world(*asked)) and way(found)


def read(got):
    """A number, or None."""
    found = None if got is None else number(got)
    return int(found) if found is not None and found.is_integer() else found


def facts(got, want, parameters, stage, memory_gb, activations_gb):
    """GB that each holds on the ranks of the answer; with one less where it has too many."""

    def held(ranks):
        return short(states_gb(parameters, stage, ranks) + activations_gb)

    if got is None:
        many = 1000 if stage else 1  # at stage 0 more of them change nothing
        return {"many": many, "need": held(many)}
    ranks = 1e12 if want is None else max(1.0, got - (got > want))
    return {"got": short(got), "memory": short(memory_gb), "held": held(ranks)}


def passed(got, want):
    """The last three cases."""
    what = "7 billion, stage {}, 20 GB of activations"
    both = zip((1, 2, 3), got[-3:], want[-3:], strict=True)
    return Passed(tuple((what.format(stage), a, b, "GPUs of 80 GiB") for stage, a, b in both))


EXERCISE = Answer(
    smallest_world,
    other="unrecognised",
    read=read,
    # Fits on one; fits exactly; a remainder; activations; other stages; GB that are no whole
    # numbers; no room; a long search.
    cases=[
        case(3, 80.0),
        case(3, 4.0),
        case(3, 5.0),
        case(3, 10.0, 8.0),
        case(1, 5.0),
        case(2, 4.0),
        case(0, 20.0),
        case(0, 16.0),
        case(0, 15.5),
        case(1, 7.0, parameters=1.3e9),
        case(3, 20.5, parameters=1.3e9),
        case(0, 10.0),
        case(1, 3.0),
        case(3, 5.0, 5.0),
        case(3, 5.0, 6.0),
        case(3, 80.0, 30.0, 7e9),
        case(3, 0.03),
        *(case(stage, 85.9, 20.0, 7e9) for stage in (1, 2, 3)),
    ],
    mistakes=[
        Mistake("nobody", {FOUND: f"round({PART})"}, when=lambda got, want: got == 0 and want == 1),
        ("does_not_touch", {FOUND: f"math.floor({PART}) + 1"}),
        ("rounded_down", {FOUND: f"max(1, math.floor({PART}))"}),
        ("part_of_a_gpu", {FOUND: f"max(1, {PART})"}),
        ("no_activations", {LEFT: ""}),
        ("activations_help", {LEFT: "+ activations_gb"}),
        ("activations_divided", lambda Ψ, stage, memory, kept: math.ceil(
            (16 * Ψ / 1e9 + kept) / memory)),
        ("all_divided", lambda Ψ, stage, *room: smallest_world(Ψ, 3, *room)),
        ("stage_2", lambda Ψ, stage, *room: smallest_world(Ψ, 2 if stage == 1 else stage, *room)),
        ("power_of_two", changed(lambda found: 2 ** math.ceil(math.log2(found)))),
        ("copies", {"return 1 if room >= 0 else None": "return math.ceil(whole / memory_gb)"}),
        Mistake("gave_up", lambda Ψ, stage, memory, kept: (
            1 if 16 * Ψ / 1e9 + kept <= memory else None), when=lambda got, error: (
            got is None and error is None)),
        Mistake("searches_on", when=lambda want, error: want is None and error == "loops"),
        Mistake("no_room_raised", {"room <= 0": "room < 0"}, when=lambda want, error: (
            want is None and error and error not in NAMES and {"error": error})),
        Mistake("below_one", lambda *asked: smallest_world(*asked) or 0,
                when=lambda got, want: want is None and (got < 1 or got == math.inf)),
        Mistake("never", lambda *asked: smallest_world(*asked) or 1,
                when=lambda want: want is None),
        Mistake("too_few", lambda *asked: 1, when=lambda got, want: got < want),
        Mistake("too_many", changed(lambda found: 8 * math.ceil(found / 8)), when=lambda: True),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
