"""Exercise 1.3: MFU from a step's time: whose tokens, whose peak, and which FLOP."""

from dtlib.learn.answers import Answer
from dtlib.learn.ratios import short
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

TOKENS, TIME = "tokens_per_rank * ranks", "step_seconds * ranks"  # words of the solution

mfu = solution("mfu", globals())


def case(parameters=1e9, tokens=1000, ranks=1, seconds=2.5, teraflops=8.0, recompute=False):
    """6e12 FLOP in 2.5 s of 8 TFLOP/s are 0.3."""
    label = (
        f"Ψ = {parameters:g}, {tokens} tokens on each of {ranks} rank{'s' * (ranks > 1)}, "
        f"{seconds:g} s, {teraflops:g} TFLOP/s, recompute={recompute}"
    )
    return label, (parameters, tokens, ranks, seconds, teraflops, recompute)


EXERCISE = Answer(
    mfu,
    cases=[
        case(),
        case(ranks=3),
        case(recompute=True),
        case(ranks=4),
        case(2e9, 500, seconds=1.5, teraflops=16.0),
        # 384 A100, 2048 sequences of 2048 tokens in 104.7 s, forward recomputed
        ("BLOOM's step", (176e9, 2048 * 2048 / 384, 384, 104.7, 312.0, True)),
    ],
    mistakes=[
        ("percent", lambda *step: 100 * mfu(*step)),
        ("teraflop", {" * 1e12": ""}),
        ("no_peak", {" * teraflops * 1e12": ""}),
        ("achieved", {" * teraflops": ""}),
        ("forward_only", {"6 *": "2 *"}),
        ("no_seconds", {TIME: "ranks"}),
        ("times_seconds", {TIME: "ranks / step_seconds"}),
        ("upside_down", lambda *step: 1 / mfu(*step)),
        ("recomputed", {"6 *": "8 *"}),
        ("recomputed", {"6 *": "(8 if recompute else 6) *"}),
        ("punished", {"6 *": "(4.5 if recompute else 6) *"}),
        ("tokens_of_one", {TOKENS: "tokens_per_rank"}),
        ("peak_of_one", {TIME: "step_seconds"}),
        ("ranks_upside_down", {TOKENS: "tokens_per_rank / ranks"}),
    ],
    other="factor",
    facts=lambda got, want, tokens_per_rank, step_seconds: {
        "got": short(got), "want": short(want), "times": short(got / want),
        "tokens": tokens_per_rank, "seconds": step_seconds,
    },
    passed=lambda got, want: Passed(
        (("MFU of BLOOM 176B", round(got[-1], 3), round(want[-1], 3), ""),)
    ),
)  # fmt: skip
