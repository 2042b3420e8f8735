"""Exercise 1.1: the days of a run, checked by physics: one number changes at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.ratios import compare, near, short

from ..what_if import training_days

Run = tuple[float, float, int, float, float]
# 6 FLOP · 1e9 · 1.728e8 is what 6 TFLOP/s does in two days; two, so that an inverse shows.
TWO_DAYS: Run = (1e9, 1.728e8, 1, 6.0, 1.0)
LLAMA_2_7B = (7e9, 2e12, 312.0)  # its model card says 184,320 GPU hours on A100-80GB
CARD_HOURS = 184_320

# Factors that a mistake puts between an answer and the right one, first on one GPU at full peak.
ALONE = {
    "teraflop": 1e12,
    "gigaflop": 1e3,
    "forward_only": 1 / 3,
    "backward_only": 2 / 3,
    "one_each": 1 / 6,
    "sixteen": 16 / 6,
    "hours": 24,
    "minutes": 1440,
    "seconds": 86_400,
    "upside_down": 1 / 4,
    "percent": 100,
}
GPUS = {"one_gpu": 4, "more_is_slower": 16, "gpus_twice": 1 / 4}
MFU = {"no_mfu": 1 / 2, "mfu_helps": 1 / 4, "mfu_twice": 2, "percent": 100}

LARGER: tuple[Run, ...] = (
    (1e9, 1.728e8, 3, 6.0, 1.0),
    (3e9, 1.728e8, 1, 6.0, 1.0),
    (1e9, 5e9, 1, 6.0, 1.0),
    (1e9, 1.728e8, 1, 24.0, 1.0),
)


def check(student: Callable[..., Any]) -> Passed:
    """Two days on one GPU; four GPUs; half the peak; then each number larger by itself."""
    _compare(student, TWO_DAYS, ALONE)
    _compare(student, (1e9, 1.728e8, 4, 6.0, 1.0), GPUS)
    _compare(student, (1e9, 1.728e8, 1, 6.0, 0.5), MFU)
    for run in LARGER:
        _compare(student, run, {})
    parameters, tokens, peak = LLAMA_2_7B
    hours = 24 * _ask(student, (parameters, tokens, 1, peak, 0.4))
    row = ("Llama 2 7B: yours at MFU 0.4, its model card", round(hours), CARD_HOURS, "GPU hours")
    return Passed((row,), "Your estimate stands beside what the run really took.")


def _ask(student: Callable[..., Any], run: Run) -> float:
    return ask_number(student, *run, case=_words(run))


def _words(run: Run) -> str:
    parameters, tokens, gpus, teraflops, mfu = run
    gpu = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"Ψ = {parameters:g}, {tokens:g} tokens, {gpu} of {teraflops:g} TFLOP/s, MFU {mfu:g}"


def _compare(student: Callable[..., Any], run: Run, known: dict[str, float]) -> None:
    got, want = _ask(student, run), training_days(*run)
    if got in (math.floor(want), math.ceil(want)) and not near(got, want):
        raise Wrong("whole_days", _words(run), got=short(got), want=short(want))
    compare(got, want, known, _words(run), gpus=run[2], mfu=run[4])
