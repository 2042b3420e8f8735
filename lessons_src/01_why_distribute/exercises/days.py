"""Exercise 1.1: the days of a run, checked by physics: one number changes at a time."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.ratios import short
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

CARD_HOURS = 184_320  # of Llama 2 7B on A100-80GB, says its model card
DAY, GPUS = "(24 * 60 * 60)", "gpus * teraflops"  # words of the solution

training_days = solution("training_days", globals())


def case(parameters=1e9, tokens=1.728e8, gpus=1, teraflops=6.0, mfu=1.0):
    """6 TFLOP/s need two days for 6 FLOP · 1e9 · 1.728e8; not one day, so that an inverse shows."""
    gpu = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    label = f"Ψ = {parameters:g}, {tokens:g} tokens, {gpu} of {teraflops:g} TFLOP/s, MFU {mfu:g}"
    return label, (parameters, tokens, gpus, teraflops, mfu)


def passed(got):
    """The last case beside the hours that the run really took."""
    hours = round(24 * got[-1])
    row = ("Llama 2 7B: yours at an MFU of 0.4, its model card", hours, CARD_HOURS, "GPU hours")
    return Passed((row,), "Beside your estimate is what the run really took.")


EXERCISE = Answer(
    training_days,
    cases=[
        case(),
        case(gpus=4),
        case(mfu=0.5),
        case(gpus=3),
        case(parameters=3e9),
        case(tokens=5e9),
        case(teraflops=24.0),
        case(tokens=150),  # less than a second
        case(7e9, 2e12, 1, 312.0, 0.4),
    ],
    mistakes=[
        Mistake("whole_days", lambda *run: math.floor(training_days(*run)),
                when=lambda got, want: got in (math.floor(want), math.ceil(want))),
        ("teraflop", {" * 1e12": ""}),
        ("gigaflop", {"1e12": "1e9"}),
        ("forward_only", {"6 *": "2 *"}),
        ("backward_only", {"6 *": "4 *"}),
        ("one_each", {"6 *": "1 *"}),
        ("sixteen", {"6 *": "16 *"}),
        ("hours", {DAY: "(60 * 60)"}),
        ("minutes", {DAY: "60"}),
        ("seconds", {DAY: "1"}),
        ("upside_down", lambda *run: 1 / training_days(*run)),
        ("percent", {"* mfu": "* mfu / 100"}),
        ("one_gpu", {GPUS: "teraflops"}),
        ("more_is_slower", {GPUS: "teraflops / gpus"}),
        ("gpus_twice", {GPUS: "gpus**2 * teraflops"}),
        ("no_mfu", {" * mfu": ""}),
        ("mfu_helps", {"* mfu": "/ mfu"}),
        ("mfu_twice", {"* mfu": "* mfu**2"}),
    ],
    other="factor",
    facts=lambda got, want, mfu: {
        "got": short(got), "want": short(want), "times": short(got / want),
        "full": short(want * mfu),
    },
    passed=passed,
)  # fmt: skip
