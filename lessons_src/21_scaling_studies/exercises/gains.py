"""Exercise 21.2: is it a gain? Throughputs of paired repeats, and a word for what they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

GAIN, LOSS, NOISE = "gain", "loss", "noise"
Pair = tuple[list[float], list[float]]
# Throughputs before and after; what an answer that goes wrong here has done.
CASES: tuple[tuple[Pair, str, str], ...] = (
    (([100, 100, 100], [105, 106, 104]), GAIN, "blind"),
    (([100, 100, 100], [95, 94, 97]), LOSS, "loss"),
    (([100, 100, 100], [120, 99, 110]), NOISE, "median_only"),
    (([100, 100, 100], [80, 90, 101]), NOISE, "median_only"),
    (([100, 50, 80], [105, 53, 84]), GAIN, "unpaired"),
    (([100, 50, 80], [55, 90, 104]), NOISE, "sorted"),
    (([100, 100, 100], [101, 102, 101.5]), GAIN, "threshold"),
    (([100, 100, 100], [100, 101, 102]), NOISE, "zero"),
    (([100], [150]), NOISE, "one"),
    (([100], [60]), NOISE, "one"),
)


def reference(before: Sequence[float], after: Sequence[float]) -> str:
    """A gain when every repeat is faster than its own partner, a loss when every one is slower."""
    pairs = list(zip(before, after, strict=True))
    if len(pairs) > 1 and all(b > a for a, b in pairs):
        return GAIN
    if len(pairs) > 1 and all(b < a for a, b in pairs):
        return LOSS
    return NOISE


def check(student: Callable[..., Any]) -> Passed:
    """One pair of lists after another."""
    for (before, after), want, key in CASES:
        case = f"before {_words(before)}, after {_words(after)}"
        got = ask(student, list(before), list(after), case=case)
        if got is None:
            raise Wrong("none", case)
        if not isinstance(got, str) or got not in (GAIN, LOSS, NOISE):
            raise Wrong("not_a_word", case, got=repr(got)[:40])
        if got != want:
            opposite = {got, want} == {GAIN, LOSS}
            raise Wrong("swapped" if opposite else key, case, got=got, want=want)
    return Passed((("ten pairs of lists", "as judged", "as judged", ""),))


def _words(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values) + "]"
