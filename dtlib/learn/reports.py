"""What a rank reports about a call: its result, or what stopped it."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Sequence
from typing import Any

import torch

from dtlib.learn.rounds import Failure, Given, Round, Seen
from dtlib.learn.verdicts import innermost
from dtlib.learn.wire import FEW, WireLog

LIMIT = 20.0  # seconds that all cases of a launch may take; stops an endless loop
MOST = 2000  # characters kept of what a rank prints
OWN_CODE = "its own code"
NOBODY_CAME = "a peer that never came"
# How gloo's messages describe a wait; in DETAIL mode a collective starts with a monitored barrier.
HANGS = {
    "for send operation": "send",
    "for recv operation": "recv",
    "failed to pass monitoredBarrier": "a collective",
    "imed out": "a collective",
}
GONE = ("Connection closed", "Connection reset", "Broken pipe", "received errors while waiting")


def together(
    cases: Sequence[Given], reached: Sequence[list[Seen]], to_the_end: bool = False
) -> list[Round]:
    """What every rank saw, case by case: all, or up to the first that is not right everywhere.

    A lost rank cannot say in which case it was lost. That is the last case that the others began,
    since all ranks wait for one another after each. If all were lost, a single case is named.
    """
    begun = max((len(seen) for seen in reached if not _lost(seen)), default=0)
    if not begun:
        case = cases[0] if len(cases) == 1 else cases[0]._replace(label="")
        return [Round(case, [seen[-1] for seen in reached])]
    rounds = []
    for k in range(begun):
        ranks = [seen[-1] if _lost(seen) or k >= len(seen) else seen[k] for seen in reached]
        if k < begun - 1 and not to_the_end:  # after a wrong case no other begins
            ranks = [Seen(s.rank, right=True) if _lost([s]) else s for s in ranks]
        rounds.append(Round(cases[k], ranks))
        if not rounds[-1].right and not to_the_end:
            break
    return rounds


def _lost(seen: Sequence[Seen]) -> bool:
    return any(one.failure is not None and one.failure.lost for one in seen)


def lost(outcome: Any) -> Seen:
    """What is known about a rank that gave no answer: it was killed, or it never returned."""
    waited = OWN_CODE if outcome.status == "timeout" else None
    failure = Failure(
        outcome.error or outcome.status, outcome.message or "", "", 0, str(outcome.where), waited,
        lost=True,
    )  # fmt: skip
    return Seen(outcome.rank, failure=failure)


def describe(seen: Seen, result: Any) -> torch.Tensor | None:
    """Record what kind of value came back; a number counts as a tensor of one element."""
    if isinstance(result, numbers.Real) and not isinstance(result, bool):  # NumPy's are real, too
        seen.kind, result = "number", torch.tensor(float(result), dtype=torch.float64)
    elif isinstance(result, torch.Tensor):
        seen.kind, result = "tensor", result.detach().contiguous()
    else:
        seen.kind = "none" if result is None else type(result).__name__
        return None
    seen.shape, seen.values = tuple(result.shape), few(result)
    seen.bits = hashlib.sha256(result.numpy().tobytes()).hexdigest()
    return result


def close(result: torch.Tensor, want: torch.Tensor, tolerance: float) -> bool:
    """Whether a tensor is the right one; a single number may have any shape."""
    if result.numel() == want.numel() == 1:
        result, want = result.reshape(()), want.reshape(())
    return result.shape == want.shape and torch.allclose(
        result.double(), want.double(), rtol=tolerance, atol=tolerance
    )


def counts(result: torch.Tensor) -> dict[float, int]:
    """How often each number occurs in a tensor with few distinct values."""
    values, counts = result.unique(return_counts=True)
    if len(values) > 8:
        return {}
    return dict(zip(map(float, values.tolist()), counts.tolist(), strict=True))


def few(x: torch.Tensor) -> list[float]:
    """The numbers of a small tensor."""
    return [float(v) for v in x.flatten().tolist()] if x.numel() <= FEW else []


def failed(error: BaseException, log: WireLog) -> Failure:
    """What stopped a rank: an exception of its own, or a wait that was too long."""
    message = str(error).strip()
    frame = innermost(error)
    waited = next((what for words, what in HANGS.items() if words in message), None)
    if waited is None and message == "Wait timeout":
        waited = NOBODY_CAME
    # In DETAIL mode a collective begins with messages of its own, and gloo names those.
    own = [m for m in log.messages[-1:] if m.peer is not None]
    if waited in ("send", "recv") and not own:
        waited = "a collective"
    gone = any(words in message for words in GONE)
    # A cell's source is not on this rank; the parent looks the line up by the file's name.
    place = (frame.name, frame.lineno or 0, frame.filename)
    return Failure(type(error).__name__, message, *place, waited, gone)
