"""The collectives that ZeRO needs, by hand, and how many bytes this rank sent in each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch

from dtlib.scratch import ring


class Wire:
    """Ring collectives over all ranks that count what they really send.

    Attributes
    ----------
    sent
        Bytes that this rank has sent so far, by kind: `reduce_scatter`, `all_gather`, `all_reduce`.
    """

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    def reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        """Return this rank's chunk of the sum of `x`, which is overwritten."""
        return self._counted("reduce_scatter", ring.reduce_scatter, x)

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """Complete `x`, of which each rank holds its own chunk, in place."""
        return self._counted("all_gather", ring.all_gather, x)

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """Sum `x`, in place."""
        return self._counted("all_reduce", ring.ring_all_reduce, x)

    def _counted(
        self, kind: str, collective: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        before = ring.METER.bytes_sent
        result = collective(x)
        self.sent[kind] += ring.METER.bytes_sent - before
        return result
