"""Exercise 18.3: the fewest tokens for an efficiency, if the bus is not hidden at all."""

import math  # noqa: F401 (the solution uses it)

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

RATIO, CEIL = "efficiency / (1 - efficiency)", "math.ceil(computing * speed / (6 * parameters))"
INSIDE = "computing * speed / (6 * parameters)"  # words of the solution

fewest_tokens = solution("fewest_tokens", globals())


def case(parameters, moved, bandwidth, speed, efficiency):
    label = (
        f"{parameters} parameters, {moved} bytes at {bandwidth} bytes/s, {speed} FLOP/s, "
        f"efficiency {efficiency:g}"
    )
    return label, (parameters, moved, bandwidth, speed, efficiency)


def read(got):
    """A whole number; a float that is whole counts."""
    if got is None:
        raise Wrong("none")
    if isinstance(got, (list, tuple, dict)):
        raise Wrong("several", got=type(got).__name__)
    return to_number(got)


def seconds(parameters, moved, bandwidth, speed, got):
    """Of bus and computing, with these tokens."""
    return moved / bandwidth, 6 * parameters * got / speed


def facts(got, want, parameters, moved, bandwidth, speed, efficiency):
    bus, computing = seconds(parameters, moved, bandwidth, speed, got)
    reached = computing / (computing + bus) if computing + bus else 0
    return {
        "got": f"{got:,.6g}", "want": f"{want:,.0f}", "bus": f"{bus:g}",
        "computing": f"{computing:.4g}", "reached": f"{reached:.4g}", "asked": f"{efficiency:g}",
    }  # fmt: skip


def near(got, want):
    """Too few by less than one token."""
    return -1 <= got - want < 0


EXERCISE = Answer(
    fewest_tokens,
    read=read,
    same=0.0,
    # Half; another share; something to round up, nearer to either side; other numbers. Only the
    # first result is whole: with one half, every order of the operations gives it exactly.
    cases=[
        case(64, 25_600, 400, 12_288, 0.5),
        case(64, 800, 400, 3100, 0.75),
        case(64, 800, 400, 3000, 0.75),
        case(64, 800, 400, 2900, 0.75),
        case(70, 900, 300, 5000, 0.8),
        case(1000, 4000, 8000, 96_000, 0.25),
        case(13 * 10**9, 52 * 10**9, 16 * 10**9, 40 * 10**12, 0.875),
    ],
    mistakes=[
        ("rounded_down", {"math.ceil(": "math.floor("}),
        ("nearest", {CEIL: f"round({INSIDE})"}),
        ("one_more", {CEIL: f"int({INSIDE}) + 1"}),
        ("forward_only", {"(6 * parameters)": "(2 * parameters)"}),
        ("backward_only", {"(6 * parameters)": "(4 * parameters)"}),
        ("recomputed", {"(6 * parameters)": "(8 * parameters)"}),
        ("one_flop", {"(6 * parameters)": "parameters"}),
        ("twelve", {"(6 * parameters)": "(12 * parameters)"}),
        ("brackets", {RATIO: "efficiency / 1 - efficiency"}),
        ("no_model", {"(6 * parameters)": "6"}),
        ("of_the_bus", {RATIO: "efficiency"}),
        ("upside_down", {RATIO: "(1 - efficiency) / efficiency"}),
        ("whole_step", {RATIO: "/ (1 - efficiency)".replace("/ ", "1 / ")}),
        ("divided", {RATIO: "1 / efficiency"}),
        ("percent", {RATIO: "(efficiency / 100) / (1 - efficiency / 100)"}),
        ("of_the_rest", {RATIO: "(1 - efficiency)"}),
        ("hidden", {RATIO: "1"}),
        ("ten_times", {"moved / bandwidth": "8 * moved / bandwidth"}),
        ("one", {CEIL: "1"}),
        ("both_ways", {"moved / bandwidth": "2 * moved / bandwidth"}),
        ("bandwidth_up", {"moved / bandwidth": "bandwidth / moved"}),
        ("no_bandwidth", {"moved / bandwidth": "moved"}),
        ("speed_down", {"computing * speed / (6 * parameters)":
                        "computing / speed * 6 * parameters"}),
        ("seconds", {CEIL: "computing"}),
        ("flop", {CEIL: "math.ceil(computing * speed)"}),
        Mistake("not_whole", {CEIL: INSIDE}, when=lambda got, want: near(got, want) and got % 1),
        Mistake("too_few_by_one", when=near),
    ],
    other="unrecognised",
    facts=facts,
    passed=lambda got, want: Passed(
        (("tokens, 13 billion at 0.875", int(got[-1]), int(want[-1]), ""),)
    ),
)  # fmt: skip
