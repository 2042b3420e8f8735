"""Read a schedule, with no process at all: can it run, when does each line run, what is kept?

`follow` carries out the lists of all ranks on paper. It refuses what no worker could do, or gives
the time of every line, from which the bubble can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dtlib.scratch.pipeline.instructions import (
    Backward,
    BackwardWeight,
    Forward,
    Instruction,
    Lists,
    Receive,
    Send,
)
from dtlib.scratch.pipeline.messages import peer, received_as, sent_as
from dtlib.scratch.pipeline.refuse import refuse_early, refuse_incomplete, refuse_stuck

UNIT = {"Forward": 1.0, "Backward": 2.0, "BackwardInput": 1.0, "BackwardWeight": 1.0}


class Span(NamedTuple):
    """A line of a rank's list, and from when to when it runs."""

    rank: int
    line: Instruction
    start: float
    end: float


def follow(
    lists: Lists, seconds: Mapping[str, float] = UNIT, message: float = 0.0, blocking: bool = False
) -> list[Span]:
    """Carry out the lists of all ranks on paper.

    Parameters
    ----------
    lists
        For each rank its instructions, with messages (`with_messages`).
    seconds
        The time of each kind of computation, by the name of its class; of one stage.
    message
        Seconds from a send to the arrival. A rank that sends computes on meanwhile.
    blocking
        Whether a send waits until the other rank has come to the matching receive.

    Returns
    -------
    list of Span
        Every line of every rank, in an order in which they can run.

    Raises
    ------
    BadInput
        When a computation is missing, is there twice, lies on the wrong rank or comes before its
        input, or when ranks wait for each other; names the rank and its line.
    """
    refuse_incomplete(lists)
    refuse_early(lists)
    ranks = len(lists)
    at, clock = [0] * ranks, [0.0] * ranks
    done: dict[Instruction, float] = {}
    spans: list[Span] = []

    def ready(rank: int) -> float | None:
        """When the next line of a rank can begin; None while it waits for another rank."""
        line = lists[rank][at[rank]]
        if isinstance(line, Receive):
            sent = sent_as(line)
            return max(clock[rank], done[sent] + message) if sent in done else None
        if isinstance(line, Send) and blocking:
            other = peer(line, ranks)
            met = lists[other][at[other] : at[other] + 1] == [received_as(line)]
            return max(clock[rank], clock[other]) if met else None
        return clock[rank]

    waiting = False
    while not waiting:
        waiting = True
        for rank in range(ranks):
            while at[rank] < len(lists[rank]) and (start := ready(rank)) is not None:
                line = lists[rank][at[rank]]
                end = start + seconds.get(type(line).__name__, 0.0)
                spans.append(Span(rank, line, start, end))
                done[line] = clock[rank] = end
                at[rank] += 1
                waiting = False
    refuse_stuck(lists, at)
    return spans


def idle_share(spans: Sequence[Span]) -> float:
    """The bubble: idle time of all ranks, as a share of the time in which they compute.

    It counts from the first start to the last end, for times that were read or measured. Narayanan
    et al. count it like this; GPipe's paper divides by the whole time.
    """
    total = max(span.end for span in spans) - min(span.start for span in spans)
    busy = sum(span.end - span.start for span in spans)
    return (total * (1 + max(span.rank for span in spans)) - busy) / busy


def kept_at_most(lines: Sequence[Instruction]) -> int:
    """The most forwards whose activations a rank keeps at once.

    They are kept from a forward to the backward, or, if that is split, to the weight gradient.
    """
    now = most = 0
    for line in lines:
        now += isinstance(line, Forward) - isinstance(line, Backward | BackwardWeight)
        most = max(most, now)
    return most
