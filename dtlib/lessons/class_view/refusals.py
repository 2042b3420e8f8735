"""What the class view refuses: an HTTP status, one sentence, and how often anybody may ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any


class Refused(Exception):
    """A request that is refused.

    Parameters
    ----------
    status
        HTTP status.
    sentence
        What is wrong and what to do, for the person who asked.
    wait
        Seconds after which the same request may be sent again (`Retry-After`).
    **more
        Further fields of the answer, for the program that asked.
    """

    def __init__(self, status: int, sentence: str, *, wait: float = 0.0, **more: Any) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.wait, self.more = status, sentence, wait, more


class Limiter:
    """A token bucket for each key: `most` at once, and `per_second` more as time passes."""

    FORGET = 4096  # buckets; when there are more, the full ones say nothing and are dropped

    def __init__(
        self, most: float, per_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most, self.per_second, self._clock = most, per_second, clock
        self._left: dict[Hashable, tuple[float, float]] = {}

    def wait(self, key: Hashable, cost: float = 1.0) -> float:
        """Take `cost` tokens and return 0, or return the seconds until there are as many.

        A cost of 0 only asks whether the bucket is empty.
        """
        now = self._clock()
        left, since = self._left.get(key, (self.most, now))
        left = min(self.most, left + (now - since) * self.per_second)
        missing = max(cost, 1.0) - left
        if missing > 0:
            self._left[key] = (left, now)
            return missing / self.per_second
        self._left[key] = (left - cost, now)
        if len(self._left) > self.FORGET:
            self._left = {
                k: (n, at)
                for k, (n, at) in self._left.items()
                if n + (now - at) * self.per_second < self.most
            }
        return 0.0
