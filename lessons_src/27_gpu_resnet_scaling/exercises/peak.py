"""`share_of_peak`: the MFU of a training that counts images, checked by physics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.ratios import compare, short
from dtlib.sim import hardware

Run = tuple[float, float, int, float]
# 100 images a second, 2 GFLOP forward each, are 600 GFLOP/s of training: half of 1.2 TFLOP/s.
HALF: Run = (100.0, 2e9, 1, 1.2e12)
FOUR: Run = (100.0, 2e9, 4, 1.2e12)
ALONE = {
    "forward_only": 1 / 3,
    "backward_only": 2 / 3,
    "multiply_adds": 2.0,
    "per_cent": 100.0,
    "upside_down": 4.0,
    "in_flop": 1.2e12,
}
SEVERAL = {"one_gpu": 4.0, "gpus_times": 16.0}
# airbench's own baseline, "Standard ResNet-18 training": 7 minutes and 32.3 PFLOP on an A100, which
# is 23,100 images/s at 3.33 GFLOP each (https://github.com/KellerJordan/cifar10-airbench).
PUBLISHED: Run = (23_100.0, 1.11e9, 1, hardware.peak("a100-80", "bf16"))


def reference(images_per_second: float, forward_flop: float, gpus: int, peak: float) -> float:
    """The share of the peak that a training reaches: backward is twice the forward pass."""
    return images_per_second * 3 * forward_flop / (gpus * peak)


def check(student: Callable[..., Any]) -> Passed:
    """One GPU at half its peak; four GPUs; twice the images."""
    compare(_ask(student, HALF), 0.5, ALONE, _words(HALF))
    compare(_ask(student, FOUR), 0.125, SEVERAL, _words(FOUR))
    twice = (200.0, *HALF[1:])
    compare(_ask(student, twice), 1.0, {"fixed": 0.5, "slower": 0.25}, _words(twice))
    share = _ask(student, PUBLISHED)
    want = reference(*PUBLISHED)
    compare(share, want, {}, _words(PUBLISHED))
    row = ("a published ResNet-18 on one A100", round(100 * share, 1), round(100 * want, 1), "%")
    return Passed((row,))


def _ask(student: Callable[..., Any], run: Run) -> float:
    got = ask_number(student, *run, case=_words(run))
    if got <= 0:
        raise Wrong("not_positive", _words(run), got=short(got))
    return got


def _words(run: Run) -> str:
    images, flop, gpus, peak = run
    gpu = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"{images:g} images/s, {flop:g} FLOP forward, {gpu} of {peak:g} FLOP/s"
