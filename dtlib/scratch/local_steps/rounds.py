"""A round is H steps without a message."""

from __future__ import annotations

from dtlib.errors import BadInput


class Rounds:
    """Counts steps, and says which one is the last of its round.

    Parameters
    ----------
    every
        H, the steps of a round.

    Raises
    ------
    BadInput
        When H is below 1.
    """

    def __init__(self, every: int) -> None:
        if every < 1:
            raise BadInput(f"a round of {every} steps never ends: give every= at least 1.")
        self.every, self.steps = every, 0

    def ends(self) -> bool:
        """Count a step; true if the round is over with it."""
        self.steps += 1
        return self.steps % self.every == 0
