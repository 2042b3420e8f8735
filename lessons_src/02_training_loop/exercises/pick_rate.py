"""Exercise 2.5: a learning rate from a range test.

The rule is that of fastai's `minimum`: a tenth of the rate at which the loss was lowest, before it
diverged. https://docs.fast.ai/callback.schedule.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dtlib.learn.checking import Passed, Wrong

from .returned import number_of

NAN = math.nan
FACTOR = 4.0
CASES: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...] = (
    ("one rate", (0.1,), (2.3,)),
    ("the loss falls all the way", (0.001, 0.01, 0.1), (2.3, 2.0, 1.5)),
    ("the loss turns", (0.002, 0.03, 0.2, 2.0), (2.3, 1.8, 2.0, 5.0)),
    ("a small step down at the end of the slope", (0.001, 0.02, 0.1, 1.0), (2.3, 1.2, 1.1, 1.9)),
    ("nan, and then a lower number", (0.003, 0.02, 0.3, 3.0), (2.3, 1.2, NAN, 0.1)),
    ("far up, and then a lower number", (0.004, 0.03, 0.4, 4.0), (2.3, 1.2, 11.0, 0.1)),
    ("up to less than 4 times the first", (0.005, 0.06, 0.7, 8.0), (2.3, 0.5, 3.0, 0.1)),
)


def reference(rates: Sequence[float], losses: Sequence[float]) -> float:
    """A tenth of the rate of the lowest loss before the first that diverged."""
    best, chosen = math.inf, rates[0]
    for rate, loss in zip(rates, losses, strict=True):
        if not loss <= FACTOR * best:  # so written, nan ends it, too
            break
        if loss < best:
            best, chosen = loss, rate
    return chosen / 10


def check(student: Callable[..., Any]) -> Passed:
    """Seven tests on paper, the shortest first."""
    for words, rates, losses in CASES:
        own = list(rates), list(losses)
        case = f"{words}: rates {_listed(rates)} gave losses {_listed(losses)}"
        got = number_of(student(*own), case)
        want = reference(rates, losses)
        if not _same(got, want):
            facts = {"got": got, "want": want, "low": losses[rates.index(_nearest(rates, want))]}
            raise Wrong(_named(got, rates, losses), case, **facts)
        if own[0] != list(rates) or str(own[1]) != str(list(losses)):
            raise Wrong("changed", case)
    return Passed(note="A loss that diverged ends the test, whatever comes after it.")


def _nearest(rates: Sequence[float], want: float) -> float:
    return min(rates, key=lambda rate: abs(rate - 10 * want))


def _named(got: float, rates: Sequence[float], losses: Sequence[float]) -> str:
    """The mistake whose rate this is."""
    want = reference(rates, losses)
    if math.isnan(got):
        return "nan"
    finite = [(loss, rate) for loss, rate in zip(losses, rates, strict=True) if loss == loss]
    place = rates.index(_nearest(rates, want))
    before = [r for r in rates if r <= rates[place]]
    lowest = min(finite)[1]
    falls = [(b - a, r) for a, b, r in zip(losses, losses[1:], rates[1:], strict=False) if a > b]
    known = [("not_a_tenth", 10 * want), ("index", float(place)), ("loss", losses[place])]
    known += [("index", place / 10), ("loss", losses[place] / 10)]
    if _has_nan(losses):
        known.append(("nan_wins", rates[_first_nan(losses)] / 10))
    elif losses[place] * FACTOR < max(losses) < FACTOR * losses[0]:
        known.append(("against_first", lowest / 10))
    known += [("after_divergence", lowest / 10), ("last_rate", rates[-1] / 10)]
    if falls:
        known.append(("steepest", min(falls)[1] / 10))
    known += [("before", r / 10) for r in before[:-1]]
    for key, value in known:
        if _same(got, value) and not _same(value, want):
            return key
    return "other"


def _has_nan(losses: Sequence[float]) -> bool:
    return any(loss != loss for loss in losses)


def _first_nan(losses: Sequence[float]) -> int:
    return next(i for i, loss in enumerate(losses) if loss != loss)


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
