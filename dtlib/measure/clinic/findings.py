"""What the clinic found, and how it names ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    `kind` is error, mismatch, deadlock, hang or difference, each of which is an alarm, or slow.
    `rank` is the one to look at, `line` where it is, `collective` what the others wait in.
    """

    kind: str
    rank: int | None
    collective: str
    line: str
    sentence: str

    @property
    def alarm(self) -> bool:
        """Whether something is wrong, rather than only late."""
        return self.kind != "slow"


def listed(ranks: Iterable[int]) -> str:
    """Return "rank 3", or "ranks 0, 1 and 4"."""
    names = [str(rank) for rank in ranks]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
