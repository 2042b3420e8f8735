"""A quantity of one rank in one step: predicted, measured, and what explains the difference."""

from __future__ import annotations

from typing import NamedTuple

COUNT = 8  # one number in fp64: samples of the global batch


class Difference(NamedTuple):
    """Bytes that a framework holds or sends beyond the formula (negative: fewer), and why."""

    size: int
    because: str


class Line(NamedTuple):
    """One quantity on one rank in one step, in bytes."""

    what: str
    predicted: int
    measured: int
    differences: tuple[Difference, ...] = ()

    @property
    def unexplained(self) -> int:
        """Bytes that no named difference accounts for."""
        return self.measured - self.predicted - sum(d.size for d in self.differences)
