"""What the clinic found, and how it names ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby


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
    """Return "rank 3", or "ranks 0, 1 and 4"; of more than eight, "ranks 0 to 62 and 64"."""
    numbers = list(ranks)
    names = [str(rank) for rank in numbers]
    if len(numbers) > 8:
        runs = [
            [r for _, r in run] for _, run in groupby(enumerate(numbers), lambda p: p[1] - p[0])
        ]
        names = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    if len(names) == 1:
        return f"{'rank' if len(numbers) == 1 else 'ranks'} {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
