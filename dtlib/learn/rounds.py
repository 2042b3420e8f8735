"""The parts of a check on ranks: a case, and what each rank saw in it.

Inputs are painted: rank r fills its tensor with 10**r, so that the digits of a sum say who is in
it: in 111 every rank once, in 101 rank 1 is missing, in 112 rank 0 is in it twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from dtlib.learn.verdicts import Wrong
from dtlib.learn.wire import Message, Sender


class Given(NamedTuple):
    """A case of an exercise: the number of ranks, its name, and each rank's arguments.

    `make(rank, n)` returns the argument, or a tuple of several.
    """

    n: int
    label: str
    make: Callable[[int, int], Any]

    def arguments(self, rank: int) -> tuple[Any, ...]:
        """The arguments of a rank, made anew for each call since an answer may change them."""
        made = self.make(rank, self.n)
        return made if isinstance(made, tuple) else (made,)


@dataclass
class Failure:
    """An exception in the student's code: its text, its line, and what the rank was waiting in.

    `lost` means that the rank gave no answer at all: it was killed, or its process ended.
    """

    error: str
    message: str
    function: str
    line: int
    code: str
    waited_in: str | None = None
    peer_gone: bool = False
    lost: bool = False

    @property
    def mismatch(self) -> bool:
        """Whether gloo's debug mode saw two ranks make different collective calls."""
        return "Detected mismatch between collectives" in self.message

    @property
    def own(self) -> bool:
        """Whether the fault is this rank's own, and not a wait for another rank."""
        return self.waited_in is None and not self.peer_gone and not self.mismatch


@dataclass
class Seen(Sender):
    """What one rank saw in one case; tensors of more than 64 numbers are summarised."""

    rank: int
    kind: str = "none"  # "tensor", "number", "none" or the name of a type
    shape: tuple[int, ...] = ()
    values: list[float] = field(default_factory=list)
    counts: dict[float, int] = field(default_factory=dict)
    bits: str = ""
    want: list[float] = field(default_factory=list)
    want_shape: tuple[int, ...] = ()
    want_counts: dict[float, int] = field(default_factory=dict)
    right: bool = False
    messages: list[Message] = field(default_factory=list)
    failure: Failure | None = None
    got: Any = None  # a number, the numbers of a small tensor, or how often each occurs
    goal: Any = None  # what the solution gave, if neither a number nor a tensor
    want_kind: str = ""
    wrong: Wrong | None = None  # what reading the answer found
    seconds: float = 0.0
    printed: str = ""

    @property
    def collectives(self) -> list[str]:
        """Names of the collectives that this rank called."""
        return [m.kind for m in self.messages if m.kind not in ("send", "recv")]


@dataclass
class Round:
    """One case on all ranks."""

    case: Given
    ranks: list[Seen]

    @property
    def n(self) -> int:
        """How many ranks."""
        return len(self.ranks)

    @property
    def label(self) -> str:
        """The case in words."""
        ranks = f"{self.n} rank{'s' * (self.n > 1)}"
        return f"{ranks}, {self.case.label}" if self.case.label else ranks

    @property
    def right(self) -> bool:
        """Whether every rank had the right answer."""
        return all(seen.right for seen in self.ranks)

    @property
    def failures(self) -> list[tuple[int, Failure]]:
        """The ranks that failed, and how."""
        return [(s.rank, s.failure) for s in self.ranks if s.failure]


def painted(size: int) -> Callable[[int, int], torch.Tensor]:
    """The input of rank r in a painted case: `size` elements of 10**r."""
    return lambda rank, n: torch.full((size,), 10.0**rank)


def placed(size: int) -> Callable[[int, int], torch.Tensor]:
    """Paint that also tells positions apart: element j of rank r is (j + 1) times 10**r, j < 9."""
    return lambda rank, n: torch.arange(1.0, size + 1) * 10**rank
