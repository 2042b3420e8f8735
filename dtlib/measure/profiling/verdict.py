"""Turn shares into a verdict: what bounds a run, the evidence, and what to try next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtlib.errors import BadInput
from dtlib.measure.profiling.shares import Shares

# The share from which input or communication is worth working on first. Below it, compute offers
# more: a step that loses a fifth of its time is at most 1.25 times as fast.
WORTH_IT = 0.2
WORDS = {
    "input": "waiting for a batch", "communication": "communication that nothing hides",
    "compute": "computing", "idle": "idle, with nothing in the trace",
}  # fmt: skip
NEXT = {
    "input": "try more loader workers, decode once, or keep the data on the device",
    "communication": "try larger buckets, gradients in bf16, or accumulation with no_sync",
    "compute": "try bf16, torch.compile, or a larger micro-batch",
    "idle": "look for synchronisation (.item(), prints) and for many small operations: a larger"
    " micro-batch, torch.compile",
}


@dataclass(frozen=True)
class Verdict:
    """What bounds a run.

    `bound` is "input", "communication", "compute" or "idle". `straggler` is the rank that the
    others wait for, if they do; `bound` is then what holds up that rank.
    """

    bound: str
    evidence: str
    next: str
    straggler: int | None = None

    def __str__(self) -> str:
        return f"{self.bound}-bound: {self.evidence}; {self.next}."


def verdict(ranks: Sequence[Shares]) -> Verdict:
    """Say what bounds a run.

    Parameters
    ----------
    ranks
        Shares of every rank, from `shares`.

    Raises
    ------
    BadInput
        When there is no rank.
    """
    if not ranks:
        raise BadInput("there are no shares to judge: record at least one rank.")
    straggler = _straggler(ranks)
    judged = [one for one in ranks if one.rank == straggler] if straggler is not None else ranks
    means = {
        name: sum(getattr(one, name) for one in judged) / len(judged)
        for name in ("input", "communication", "compute", "idle", "waited")
    }
    means["communication"] -= means["waited"]  # a faster link would not shorten waits
    outside = max(("input", "communication"), key=means.__getitem__)
    inside = max(("compute", "idle"), key=means.__getitem__)
    bound = outside if means[outside] >= WORTH_IT else inside
    whose = "the ranks' steps are" if straggler is None else f"rank {straggler}'s steps are"
    evidence = f"{whose} {means[bound]:.0%} {WORDS[bound]}"
    if straggler is not None:
        most = max(one.waited for one in ranks)
        evidence = f"other ranks wait for rank {straggler}, up to {most:.0%} of a step; {evidence}"
    elif means["waited"] >= WORTH_IT:
        evidence += f", and {means['waited']:.0%} waiting, now for one rank, now for another"
    return Verdict(bound, evidence, NEXT[bound], straggler)


def _straggler(ranks: Sequence[Shares]) -> int | None:
    """The rank that waits least, if it hardly waits itself and another waits long for it."""
    if len(ranks) < 2:
        return None
    by_wait = sorted(ranks, key=lambda one: one.waited)
    least, most = by_wait[0].waited, by_wait[-1].waited
    return by_wait[0].rank if most >= WORTH_IT and least < most / 3 else None
