"""Exercise 1.3: MFU and HFU from a step's time: whose tokens, whose peak, and which FLOP."""

from dtlib.learn.answers import Answer
from dtlib.learn.ratios import near, short
from dtlib.learn.readers import several
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

TOKENS, PEAK = "tokens_per_rank * ranks", "(ranks * teraflops"  # words of the solution
MFU, AGAIN = "6 * share,", "2 * recompute"

mfu = solution("mfu", globals())


def case(parameters=1e9, tokens=1000, ranks=1, seconds=2.5, teraflops=8.0, recompute=0.0):
    """6e12 FLOP in 2.5 s of 8 TFLOP/s are 0.3."""
    label = (
        f"Ψ = {parameters:g}, {tokens} tokens on each of {ranks} rank{'s' * (ranks > 1)}, "
        f"{seconds:g} s, {teraflops:g} TFLOP/s, recompute={recompute:g}"
    )
    return label, (parameters, tokens, ranks, seconds, teraflops, recompute)


def both(way):
    """A mistake in both shares."""
    return lambda *step: tuple(way(share) for share in mfu(*step))


def facts(got, want, tokens_per_rank, step_seconds):
    """Which of the two shares is wrong, the first of them, and how wrong."""
    wrong = 0 if not near(got[0], want[0]) else 1
    a, b = got[wrong], want[wrong]
    return {
        "share": ("MFU", "HFU")[wrong], "got": short(a), "want": short(b), "times": short(a / b),
        "tokens": tokens_per_rank, "seconds": step_seconds,
    }  # fmt: skip


EXERCISE = Answer(
    mfu,
    read=several(2, "two"),
    cases=[
        case(),
        case(ranks=3),
        case(recompute=1.0),
        case(recompute=0.5),
        case(ranks=4),
        case(2e9, 500, seconds=1.5, teraflops=16.0),
        case(3e9, 250, ranks=2, seconds=0.5, recompute=0.25),
        # 384 A100, 2048 sequences of 2048 tokens in 104.7 s, forward recomputed
        ("BLOOM's step", (176.25e9, 2048 * 2048 / 384, 384, 104.7, 312.0, 1.0)),
    ],
    mistakes=[
        ("swapped", lambda *step: mfu(*step)[::-1]),
        ("percent", both(lambda share: 100 * share)),
        ("teraflop", {" * 1e12": ""}),
        ("no_peak", {" / (ranks * teraflops * 1e12)": ""}),
        ("achieved", {" * teraflops": ""}),
        ("forward_only", {MFU: "2 * share,", "(6 +": "(2 +"}),
        ("no_seconds", {" / step_seconds": ""}),
        ("times_seconds", {"/ step_seconds": "* step_seconds"}),
        ("upside_down", both(lambda share: 1 / share)),
        ("recomputed", {MFU: "(6 + recompute * 2) * share,"}),
        ("recomputed", {MFU: "(8 if recompute else 6) * share,"}),
        ("recomputed", {MFU: "8 * share,", f"(6 + {AGAIN})": "8"}),
        ("punished", {MFU: "18 / (3 + recompute) * share,"}),
        ("same_twice", {f"(6 + {AGAIN})": "6"}),
        ("all_or_nothing", {AGAIN: "(2 if recompute else 0)"}),
        ("whole_step_again", {AGAIN: "6 * recompute"}),
        ("backward_again", {AGAIN: "4 * recompute"}),
        ("one_flop_again", {AGAIN: "recompute"}),
        ("only_again", {f"(6 + {AGAIN})": AGAIN}),
        ("tokens_of_one", {TOKENS: "tokens_per_rank"}),
        ("peak_of_one", {PEAK: "(teraflops"}),
        ("ranks_upside_down", {TOKENS: "tokens_per_rank / ranks"}),
    ],
    other="factor",
    facts=facts,
    passed=lambda got, want: Passed(
        tuple(
            (f"{name} of BLOOM 176B", round(a, 3), round(b, 3), "")
            for name, a, b in zip(("MFU", "HFU"), got[-1], want[-1], strict=True)
        )
    ),
)  # fmt: skip
