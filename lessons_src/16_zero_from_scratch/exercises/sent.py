"""Exercise 16.4b: how many elements a rank sends in a step, with k micro-batches.

S. Rajbhandari et al., "ZeRO", SC20, arXiv:1910.02054, section 7, with the exact factor (N-1)/N.
"""

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

PSI = 12

sent = solution("sent", globals())


def batches(k):
    """Micro-batches in words."""
    return f"{k} micro-batch{'es' * (k > 1)}"


def case(psi, n, stage, k):
    """A step of a stage."""
    return f"Ψ = {psi:,}, N = {n}, stage {stage}, {batches(k)}", (psi, n, stage, k)


def facts(got, want, psi, n, k):
    """Once round the ring is (N-1)/N · Ψ."""
    once = psi * (n - 1) / n
    passes, size = (words(got / (whole or 1)) for whole in (once, want))
    return {"passes": passes, "size": size, "batches": batches(k)}


def passed(got, want):
    """Four ranks with eight micro-batches."""
    rows = [
        (f"stage {stage}, 8 micro-batches, {PSI} weights, 4 ranks", words(mine), words(right), "")
        for stage, (mine, right) in enumerate(zip(got[16:20], want[16:20], strict=True))
    ]
    return Passed(tuple(rows), "In elements that one rank sends in a step.")


EXERCISE = Answer(
    sent,
    read=lambda got: to_number(got, nan=True),
    # One rank, then three, four and 64 (with the paper's Ψ), with one micro-batch and with eight.
    cases=[
        *((*case(PSI, 1, stage, 1), "alone") for stage in range(4)),
        *(
            case(psi, n, stage, k)
            for n, psi in ((3, PSI), (4, PSI), (64, 7_500_000_000))
            for k in (1, 8)
            for stage in range(4)
        ),
        *(case(10, 3, stage, 1) for stage in range(4)),  # not a whole number
    ],
    mistakes=[
        ("three_halves", {"1: 2": "1: 3"}),
        ("extra_gather", {"2: k + 1": "2: 2 * k + 1"}),
        ("gathered_once", {"3 * k": "2 * k"}),
        ("ddp_each_time", {"0: 2": "0: 2 * k"}),
        ("stage1_each_time", {"1: 2": "1: k + 1"}),
        ("k_forgotten", {"2: k + 1": "2: 2"}),
        ("gathers_each_time", {"2: k + 1": "2: 2 * k"}),
        ("stage3_once", {"3 * k": "3"}),
        ("reduces_once", {"3 * k": "2 * k + 1"}),
        ("all_ranks", {"(n - 1) / n": "(n - 1)"}),
        ("rounded_down", {"times * psi * (n - 1) / n": "times * psi * (n - 1) // n"}),
        ("rounded_down", {"times * psi * (n - 1) / n": "times * (psi * (n - 1) // n)"}),
        ("rounded_down", {"times * psi * (n - 1) / n": "times * (psi // n) * (n - 1)"}),
        ("bytes", {"times * psi": "2 * times * psi"}),
        ("bytes", {"times * psi": "4 * times * psi"}),
    ],
    other="elements",
    facts=facts,
    passed=passed,
)
