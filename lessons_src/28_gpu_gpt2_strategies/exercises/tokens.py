"""Exercise 28.4: tokens a second, of steps that were timed: warm-up and padding left out."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong

PADDING = -100
Step = tuple[float, list[list[int]]]
SAME = {
    "warm_up_in_total": "warm_up", "last": "one_step", "first": "one_step",
    "lower_middle": "half_the_middle", "upper_middle": "half_the_middle",
}  # fmt: skip
# label, steps (seconds, labels of the global batch), ranks, warm-up
CASES: tuple[tuple[str, list[Step], int, int], ...] = (
    ("one step of 2 s with 8 tokens, 1 rank", [(2.0, [[5] * 8])], 1, 0),
    ("one step of 2 s with 3 windows of 8 tokens, 3 ranks", [(2.0, [[5] * 8] * 3)], 3, 0),
    (
        "a first step of 40 s, then one of 2 s, 12 tokens each, 3 ranks",
        [(40.0, [[5] * 4] * 3), (2.0, [[5] * 4] * 3)],
        3,
        1,
    ),
    (
        "2 s with 4 windows of 8, of which 2, 3, 1 and 4 are tokens, 4 ranks",
        [(2.0, [[5] * k + [PADDING] * (8 - k) for k in (2, 3, 1, 4)])],
        4,
        0,
    ),
    (
        "2 s with 2 windows of 6, their labels 0, 1 and 2 twice, 2 ranks",
        [(2.0, [[0, 1, 2, 0, 1, 2]] * 2)],
        2,
        0,
    ),
    (
        "after a warm-up of 2 steps 1, 1, 8, 2 and 1 s with 15 tokens each, 3 ranks",
        [(s, [[5] * 5] * 3) for s in (30.0, 5.0, 1.0, 1.0, 8.0, 2.0, 1.0)],
        3,
        2,
    ),
    (
        "steps of 2, 4, 1, 1 and 2 s with 20, 96, 12, 16 and 12 tokens, 4 ranks",
        [(s, [[7] * k] * 4) for s, k in ((2.0, 5), (4.0, 24), (1.0, 3), (1.0, 4), (2.0, 3))],
        4,
        0,
    ),
    (
        "four steps of 1, 2, 4 and 8 s with 16 tokens each, 2 ranks",
        [(s, [[7] * 8] * 2) for s in (1.0, 2.0, 4.0, 8.0)],
        2,
        0,
    ),
)


def counted(labels: Sequence[Sequence[int]]) -> int:
    """Labels that count: all that are no padding."""
    return sum(label != PADDING for window in labels for label in window)


def reference(steps: Sequence[Step], ranks: int, warmup: int) -> tuple[float, float]:
    """The median of the timed steps' rates, of all ranks and of one."""
    total = statistics.median(counted(labels) / seconds for seconds, labels in steps[warmup:])
    return total, total / ranks


def check(student: Callable[..., Any]) -> Passed:
    """One step; ranks; a warm-up; padding; label 0; a disturbed step; unequal and even steps."""
    for label, steps, ranks, warmup in CASES:
        got, want = _ask(student, steps, ranks, warmup, label), reference(steps, ranks, warmup)
        if any(abs(a - b) > 1e-6 * b for a, b in zip(got, want, strict=True)):
            raise _explain(got, want, steps, ranks, warmup, label)
    label, steps, ranks, warmup = CASES[3]
    got = _ask(student, steps, ranks, warmup, label)
    rows = zip(("of all ranks", "of one rank"), got, reference(steps, ranks, warmup), strict=True)
    return Passed(tuple((what, f"{a:g}", f"{b:g}", "tokens/s") for what, a, b in rows))


def _ask(
    student: Callable[..., Any], steps: list[Step], ranks: int, warmup: int, label: str
) -> tuple[float, float]:
    mine = copy.deepcopy(steps)
    got = ask(student, mine, ranks, warmup, case=label)
    if got is None:
        raise Wrong("none", label)
    if mine != steps:
        raise Wrong("mutates", label)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise Wrong("two", label, got=repr(got)[:40])
    return to_number(got[0], label), to_number(got[1], label)


def _explain(
    got: tuple[float, float],
    want: tuple[float, float],
    steps: list[Step],
    ranks: int,
    warmup: int,
    label: str,
) -> Wrong:
    total = got[0]
    facts = {"got": f"{total:.4g}", "each": f"{got[1]:.4g}", "n": ranks, "warmup": warmup}
    if abs(total - want[0]) <= 1e-6 * want[0]:
        same = abs(got[1] - total) <= 1e-6 * total
        return Wrong("each_is_all" if same else "each", label, **facts)
    for key, value in _ways(want[0], steps, ranks, warmup).items():
        if abs(total - value) <= 1e-6 * value:
            return Wrong(SAME.get(key, key), label, **facts)
    return Wrong("other", label, **facts)


def _ways(want: float, steps: list[Step], ranks: int, warmup: int) -> dict[str, float]:
    """The rate of all ranks that usual mistakes lead to."""
    timed = steps[warmup:]
    rates = [counted(labels) / seconds for seconds, labels in timed]
    places = [sum(map(len, labels)) / seconds for seconds, labels in timed]
    above_0 = [sum(x > 0 for one in labels for x in one) / s for s, labels in timed]
    every = [counted(labels) / seconds for seconds, labels in steps]
    seconds = sum(s for s, _ in timed)
    return {
        "swapped": want / ranks,
        "times_ranks": want * ranks,
        "padding": statistics.median(places),
        "label_0": statistics.median(above_0),
        "windows": statistics.median(len(labels) / s for s, labels in timed),
        "warm_up": statistics.median(every),
        "warm_up_in_total": sum(counted(b) for _, b in steps) / sum(s for s, _ in steps),
        "upside_down": 1 / want,
        "mean": statistics.mean(rates),
        "sums": sum(counted(labels) for _, labels in timed) / seconds,
        "fastest": max(rates),
        "last": rates[-1],
        "first": rates[0],
        "lower_middle": statistics.median_low(rates),
        "upper_middle": statistics.median_high(rates),
        "medians_apart": statistics.median(counted(b) for _, b in timed)
        / statistics.median(s for s, _ in timed),
    }
