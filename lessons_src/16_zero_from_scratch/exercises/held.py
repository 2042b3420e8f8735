"""Exercise 16.4a: the bytes of the model states on a rank, by kind, for every stage.

S. Rajbhandari et al., "ZeRO", SC20, arXiv:1910.02054, figure 1 and table 1.
"""

import math

from dtlib.learn.alike import alike
from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

KINDS = ("parameters", "gradients", "optimizer")
WORDS_OF = ("weight", "gradient", "state")  # what the solution calls them
PAPER = 7.5e9  # parameters of the paper's first example

held = solution("held", globals())


def case(n, stage, precision):
    """The paper's model; on one rank nothing is divided, so the bytes of a number must be wrong."""
    label = f"Ψ = {PAPER:.3g}, N = {n}, stage {stage}, {precision}"
    key = ("bytes_each",) if (n, precision) == (1, "mixed") else ()
    return label, (PAPER, n, stage, precision), *key


def uneven(n, stage, precision):
    """Ten parameters, which seven ranks cannot share: 2 and 12 bytes of each leave a remainder."""
    return f"Ψ = 10, N = {n}, stage {stage}, {precision}", (10, n, stage, precision)


def read(got, psi):
    """Bytes a parameter, by kind; an fp32 copy named by itself counts with the optimizer."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, dict):
        number = isinstance(got, (int, float))
        raise Wrong("kinds", got=f"{got:.4g}" if number else f"a {type(got).__name__}")
    if {*got} - {"fp32_copy"} != {*KINDS}:
        raise Wrong("kinds", got="the keys " + (", ".join(map(str, got)) or "of no kind"))
    try:
        found = {kind: to_number(value, nan=True) / psi for kind, value in got.items()}
    except Wrong:
        raise Wrong("kinds", got="values that are no numbers") from None
    found["optimizer"] += found.pop("fp32_copy", 0)
    return [found[kind] for kind in KINDS]


def scaled(size):
    """A mistake: the answer in another unit."""
    return lambda *given: {kind: value / size for kind, value in held(*given).items()}


def another_unit(got, n):
    """On one rank, which holds everything, the sum is far too small for bytes."""
    return n == 1 and 0 < sum(got) < 0.001 and {"got": f"{sum(got) * PAPER:.4g}"}


def same_total(got, want, n, precision):
    """The total is right, though kinds of two bytes each may be swapped."""
    return n > 1 and precision == "mixed" and math.isclose(sum(got), sum(want), rel_tol=1e-6)


def papers_split(got, psi, n, stage, precision):
    """One rank shows it already, but the sentence names the case that lesson 05 measured."""
    paper = read(held(psi, n, stage, "mixed"), psi)
    measured, *_ = case(4, 1, "fp32")
    return precision == "fp32" and alike(got, paper) and {"seven": "7", "case": measured}


def rounded_down(got, want, psi, n):
    """Whole numbers of bytes where a division leaves a remainder."""
    pairs = [(psi * x, psi * y) for x, y in zip(got, want, strict=True)]
    off = [(x, y) for x, y in pairs if not math.isclose(x, y, rel_tol=1e-6)]
    if n == 1 or not off or any(not math.isclose(x, math.floor(y)) for x, y in off):
        return False
    return {"mine": words(off[0][0]), "right": f"{off[0][1]:.2f}"}


def facts(got, want):
    """Bytes a parameter, and the first kind that is wrong."""
    wrong = (k for k in range(3) if not math.isclose(got[k], want[k], rel_tol=1e-6))
    k = next(wrong, 0)
    return {
        "got": words(sum(got)), "want": words(sum(want)), "gb": f"{sum(got) * PAPER / 1e9:.3g}",
        "split": " + ".join(map(words, got)),
        "kind": KINDS[k], "mine": words(got[k]), "right": words(want[k]),
    }  # fmt: skip


def passed(got):
    """What the paper prints, for 64 ranks."""
    printed, what = (120, 31.4, 16.6, 1.88), "stage {}, 7.5 billion parameters, 64 ranks"
    rows = [(what.format(k), f"{sum(got[8 + k]) * 7.5:.3g}", printed[k], "GB") for k in range(4)]
    return Passed(tuple(rows), "The target is what the paper prints.")


EXERCISE = Answer(
    held,
    read=read,
    cases=[
        case(n, stage, precision)
        for precision in ("mixed", "fp32")
        for n in (1, 4, 64)
        for stage in range(4)
    ]
    + [uneven(7, stage, "mixed") for stage in (1, 2, 3)],
    mistakes=[
        Mistake("gigabytes", scaled(1e9), when=another_unit),
        Mistake("gib", scaled(2**30), when=another_unit),
        ("no_master", {"(2, 2, 12)": "(2, 2, 8)"}),
        ("fp32_gradients", {"(2, 2, 12)": "(2, 4, 12)"}),
        ("fp32_split", {"(2, 2, 12)": "(4, 4, 8)"}),
        ("not_divided", lambda psi, n, stage, precision: held(psi, 1, stage, precision)),
        ("all_divided", {"stage >= 3": "stage >= 1", "stage >= 2": "stage >= 1"}),
        ("optimizer_alone", lambda psi, n, stage, how: held(psi, n, min(stage, 1), how)),
        Mistake("swapped", {"stage >= 3": "stage > 1", "stage >= 2": "stage >= 3"}, same_total),
        Mistake("paper_in_fp32", {' if precision == "mixed" else (4, 4, 8)': ""}, papers_split),
        ("copy_in_fp32", {"(4, 4, 8)": "(4, 4, 12)"}),
        Mistake("rounded_down",
                {f"{kind} * psi / (n": f"{kind} * psi // (n" for kind in WORDS_OF}, rounded_down),
    ],
    other="kind_of_bytes",
    facts=facts,
    passed=passed,
)  # fmt: skip
