"""Whether an effect is larger than the noise of the measurement that shows it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

WITHIN = "Within the noise of the machine:"
"""How a message begins that an effect is not a result; the website looks for it in outputs."""


@dataclass(frozen=True)
class Effect:
    """An effect beside its placebo.

    Attributes
    ----------
    times
        How many times as fast, or as large, the change made it.
    spread
        The placebo's largest value over its smallest; infinite for a single value.
    """

    times: float
    spread: float

    @property
    def real(self) -> bool:
        """Whether the effect, a gain or a loss, exceeds the placebo's spread."""
        return max(self.times, 1 / self.times) > self.spread

    def __str__(self) -> str:
        spread = f"{self.spread:.2f} times" if math.isfinite(self.spread) else "unknown (one value)"
        return f"placebo spread {spread}, effect {self.times:.2f} times"


def compare(times: float, placebo: Sequence[float], again: Sequence[float] | None = None) -> Effect:
    """Compare an effect with the spread that the same measurement shows when nothing is changed.

    Parameters
    ----------
    times
        The effect as it is reported: how many times as fast, or as large.
    placebo
        The times of one variant in each of its turns, interleaved with those of the others; or, if
        all turns are pairs, the effect in each pair: all measure the same change, so their spread
        is noise as well.
    again
        The same variant timed once more, turn by turn; by default `placebo` against itself.

    Returns
    -------
    Effect
        `real` decides; a placebo of a single turn proves nothing.
    """
    if len(placebo) < 2:
        return Effect(times, math.inf)
    # Nothing was changed, so pairs that always differ from 1 in the same direction are noise, too.
    pairs = placebo if again is None else [1.0, *map(operator.truediv, placebo, again)]
    return Effect(times, max(pairs) / min(pairs))
