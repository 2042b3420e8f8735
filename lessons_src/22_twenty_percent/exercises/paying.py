"""Exercise 22.4: after how many steps a change with a price, such as compiling, has paid off."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

STEPS = "math.ceil(compile_seconds / (before - after))"  # a piece of the solution's code

break_even = solution("break_even", globals())


def case(cost, before, after):
    """Label a case, in seconds that are exact in binary; a change that saves nothing never pays."""
    label = f"{cost:g} s to compile, a step of {before:g} s before and {after:g} s after"
    return label, (cost, before, after), *["never"] * (after >= before)


def read(got, before, after):
    """Read a number of steps."""
    if got is None and after >= before:
        raise Wrong("none_for_never")
    value = to_number(got, nan=True)
    if math.isnan(value):
        raise Wrong("divides_by_zero")
    return value


def facts(compile_seconds, before, after):
    """Return the numbers of the case."""
    return {"cost": f"{compile_seconds:g}", "before": f"{before:g}", "after": f"{after:g}"}


EXERCISE = Answer(
    break_even,
    same=1e-9,
    read=read,
    # A quotient that is whole, a fraction, a whole one again; no price; no saving; two losses.
    cases=[
        case(30.0, 0.75, 0.25),
        case(10.0, 1.0, 0.25),
        case(12.0, 1.5, 0.5),
        case(0.0, 0.5, 0.25),
        case(20.0, 0.25, 0.25),
        case(20.0, 0.25, 0.5),
        case(20.0, 0.5, 1.0),
    ],
    mistakes=[
        Mistake("divides_by_zero", lambda cost, before, after: math.ceil(cost / (before - after)),
                when=lambda error, before, after: error == "ZeroDivisionError" and after >= before),
        Mistake("negative", {"after >= before": "after == before"},
                when=lambda got, before, after: after >= before and got < 0),
        ("per_step_before", {STEPS: "math.ceil(compile_seconds / before)"}),
        ("per_step_after", {STEPS: "math.ceil(compile_seconds / after)"}),
        ("seconds", {STEPS: f"{STEPS} * before"}),
        ("times_saved", {STEPS: "compile_seconds * (before - after)"}),
        ("ratio", {STEPS: "compile_seconds / (before / after)"}),
        ("fraction", {STEPS: "compile_seconds / (before - after)"}),
        ("too_early", {STEPS: "compile_seconds // (before - after)"}),
        ("too_late", {STEPS: "compile_seconds // (before - after) + 1"}),
    ],
    other="steps",
    facts=facts,
    passed=lambda got, want: Passed(
        (("steps until 10 s are paid, 0.75 s a step", words(got[1]), words(want[1]), ""),)
    ),
)  # fmt: skip
