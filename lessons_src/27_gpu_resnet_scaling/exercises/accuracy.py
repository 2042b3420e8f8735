"""`hours_to_accuracy`: how long until a training is good enough, from its curve and speed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.ratios import near, short

Case = tuple[str, list[float], float, float, float]
# The curve dips and comes again, as curves do; its last epoch is not its best one.
CURVE = [0.3, 0.5, 0.62, 0.58, 0.66, 0.71, 0.69]
HOUR = 3.6e6  # pictures in an hour at 1,000 a second

CASES: tuple[Case, ...] = (
    ("one epoch", [0.7], HOUR, 1000.0, 0.6),
    ("a curve that dips", CURVE, HOUR, 1000.0, 0.6),
    ("the target met exactly", CURVE, HOUR, 1000.0, 0.5),
    ("twice the pictures at four times the speed", CURVE, 2 * HOUR, 4000.0, 0.66),
    ("a target out of reach", CURVE, HOUR, 1000.0, 0.9),
)


def reference(
    curve: list[float], images: float, images_per_second: float, target: float
) -> float | None:
    """Hours until the accuracy is `target` for the first time; None if it never is."""
    for epoch, accuracy in enumerate(curve, start=1):
        if accuracy >= target:
            return epoch * images / images_per_second / 3600
    return None


def check(student: Callable[..., Any]) -> Passed:
    """Five curves."""
    for case, curve, images, rate, target in CASES:
        given = copy.copy(curve)
        got = ask(student, given, images, rate, target, case=case)
        if given != curve:
            raise Wrong("changed", case)
        _judge(got, curve, images, rate, target, case)
    return Passed((("curves", len(CASES), len(CASES), "right"),))


def _judge(
    got: Any, curve: list[float], images: float, rate: float, target: float, case: str
) -> None:
    want = reference(curve, images, rate, target)
    best = max(curve)
    if want is None:
        if got is not None:
            raise Wrong("never", case, got=repr(got), target=target, best=best)
        return
    if got is None:
        raise Wrong("gave_up", case, target=target, best=best)
    hours, epoch = to_number(got, case), images / rate / 3600
    if near(hours, want):
        return
    right = round(want / epoch)
    later = next((n for n, a in enumerate(curve, start=1) if a > target), 0)
    seen = {"got": short(hours), "want": short(want), "epoch": right, "epochs": len(curve)}
    for key, value in (
        ("seconds", 3600 * want),
        ("counted_from_0", (right - 1) * epoch),
        ("whole_curve", len(curve) * epoch),
        ("best_epoch", (curve.index(best) + 1) * epoch),
        ("above_alone", later * epoch),
        ("epochs_alone", right),
        ("no_epochs", epoch),
        ("one_speed", right * images / 1000.0 / 3600),
    ):
        if near(hours, value):
            raise Wrong(key, case, target=target, best=best, **seen)
    if right > 1 and (right - 1) * epoch < hours < want:
        raise Wrong("between", case, **seen)
    raise Wrong("hours", case, **seen)
