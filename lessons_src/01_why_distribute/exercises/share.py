"""Exercise 1.3: MFU from a step's time: whose tokens, whose peak, and which FLOP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask_number
from dtlib.learn.checking import Passed
from dtlib.learn.ratios import compare
from dtlib.sim import flops

Step = tuple[float, int, int, float, float, bool]
# 6e12 FLOP in 2.5 s of 8 TFLOP/s: 0.3
ALONE: Step = (1e9, 1000, 1, 2.5, 8.0, False)
FACTORS = {
    "percent": 100,
    "teraflop": 1e12,
    "no_peak": 8e12,
    "achieved": 8,
    "forward_only": 1 / 3,
    "no_seconds": 2.5,
    "times_seconds": 2.5**2,
    "upside_down": 1 / 0.3**2,
    "recomputed": 4 / 3,
}
RANKS = {"tokens_of_one": 1 / 3, "peak_of_one": 3, "ranks_upside_down": 1 / 9}


def mfu(
    parameters: float,
    tokens_per_rank: int,
    ranks: int,
    step_seconds: float,
    teraflops: float,
    recompute: bool,
) -> float:
    """The share of the peak of all GPUs that the model's own FLOP make."""
    flop = flops.kaplan(parameters, tokens_per_rank * ranks)
    return flops.utilisation(flop, step_seconds, ranks, teraflops * 1e12)


def check(student: Callable[..., Any]) -> Passed:
    """One rank; three ranks; recomputation; then the numbers of BLOOM's run."""
    _compare(student, ALONE, FACTORS)
    _compare(student, (1e9, 1000, 3, 2.5, 8.0, False), RANKS)
    _compare(student, (1e9, 1000, 1, 2.5, 8.0, True), {"recomputed": 4 / 3, "punished": 3 / 4})
    for step in ((1e9, 1000, 4, 2.5, 8.0, False), (2e9, 500, 1, 1.5, 16.0, False)):
        _compare(student, step, {})
    # 384 A100, 2048 sequences of 2048 tokens in 104.7 s, forward recomputed
    bloom = (176e9, 2048 * 2048 / 384, 384, 104.7, 312.0, True)
    got = ask_number(student, *bloom, case="BLOOM's step")
    compare(got, mfu(*bloom), {}, "BLOOM's step")  # type: ignore[arg-type]
    row = ("MFU of BLOOM 176B", round(got, 3), round(mfu(*bloom), 3), "")  # type: ignore[arg-type]
    return Passed((row,))


def _compare(student: Callable[..., Any], step: Step, known: dict[str, float]) -> None:
    parameters, tokens, ranks, seconds, teraflops, recompute = step
    case = (
        f"Ψ = {parameters:g}, {tokens} tokens on each of {ranks} rank{'s' * (ranks > 1)}, "
        f"{seconds:g} s, {teraflops:g} TFLOP/s, recompute={recompute}"
    )
    got = ask_number(student, *step, case=case)
    compare(got, mfu(*step), known, case, ranks=ranks, tokens=tokens, seconds=seconds)
