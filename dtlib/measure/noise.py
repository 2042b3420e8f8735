"""Whether an effect is larger than the noise of the measurement that shows it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

WITHIN = "Within the noise of the machine:"
"""How a message begins that calls an effect no result; the website looks for it in outputs."""


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
    """Set an effect beside the spread that the same measurement shows where nothing was changed.

    Parameters
    ----------
    times
        The effect as it is shown: how many times as fast, or as large.
    placebo
        What one variant took in each of its turns, interleaved with those of the others.
    again
        The same variant timed once more, turn by turn; without it, `placebo` against itself.

    Returns
    -------
    Effect
        `real` decides; a placebo of a single turn proves nothing.
    """
    if len(placebo) < 2:
        return Effect(times, math.inf)
    # Nothing was changed, so a pair that differs from 1 always in the same direction is noise, too.
    pairs = placebo if again is None else [1.0, *map(operator.truediv, placebo, again)]
    return Effect(times, max(pairs) / min(pairs))
