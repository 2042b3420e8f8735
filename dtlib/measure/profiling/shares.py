"""Where a step's time went, on every rank: shares that add up to one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dtlib.errors import BadInput
from dtlib.measure.profiling.intervals import length, overlap, union, without
from dtlib.measure.profiling.traces import Step


@dataclass(frozen=True)
class Shares:
    """Shares of a rank's steps, 0 to 1.

    `compute`, `communication`, `input` and `idle` add up to 1. `communication` is the exposed part:
    nothing else happened meanwhile. `hidden` is the rest, which overlaps with `compute`. `waited`
    is the part of the exposed communication in which this rank had arrived but another had not.
    """

    rank: int
    steps: int
    seconds: float
    compute: float
    communication: float
    input: float
    idle: float
    hidden: float
    waited: float


def shares(steps: Sequence[Step]) -> list[Shares]:
    """Work out the shares of each rank, over all of its steps.

    Time that is claimed twice goes to input first (no rank computes while it waits for a batch, but
    the loader's own operations look like it), then to compute, then to communication.

    Parameters
    ----------
    steps
        The steps of all ranks, from `read`. The clocks of ranks on one host agree; between hosts
        `waited` is only as accurate as the clocks.

    Returns
    -------
    list of Shares
        By rank; `seconds` is the median step.

    Raises
    ------
    BadInput
        When there is no step.
    """
    if not steps:
        raise BadInput("there are no steps to compute shares from: record at least one.")
    ranks = sorted({step.rank for step in steps})
    last_to_come = _last_to_come(steps)
    return [_of_rank([step for step in steps if step.rank == rank], last_to_come) for rank in ranks]


def _last_to_come(steps: Sequence[Step]) -> dict[tuple[int, int], float]:
    """(step, collective) → when the last rank began it; only if all ranks have equally many."""
    latest: dict[tuple[int, int], float] = {}
    for number in {step.number for step in steps}:
        alike = [step.collectives for step in steps if step.number == number]
        if len({len(one) for one in alike}) == 1 and len(alike) > 1:
            for k, begun in enumerate(zip(*alike, strict=True)):
                latest[number, k] = max(begin for begin, _ in begun)
    return latest


def _of_rank(steps: Sequence[Step], last_to_come: dict[tuple[int, int], float]) -> Shares:
    total = sum(step.seconds for step in steps)
    spent = dict.fromkeys(("compute", "communication", "input", "hidden", "waited"), 0.0)
    for step in steps:
        compute = without(step.compute, step.input)
        exposed = without(without(step.communication, step.input), compute)
        alone = union(
            (begin, min(end, last_to_come.get((step.number, k), begin)))
            for k, (begin, end) in enumerate(step.collectives)
        )
        spent["input"] += length(step.input)
        spent["compute"] += length(compute)
        spent["communication"] += length(exposed)
        spent["hidden"] += length(overlap(step.communication, compute))
        spent["waited"] += length(overlap(exposed, alone))
    parts = {name: seconds / total for name, seconds in spent.items()}
    idle = 1 - parts["compute"] - parts["communication"] - parts["input"]
    median = statistics.median(step.seconds for step in steps)
    return Shares(steps[0].rank, len(steps), median, idle=max(0.0, idle), **parts)
