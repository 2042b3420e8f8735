"""The messages of a schedule, derived: what crosses from one rank to another, and when.

A rank receives what it needs right before it computes with it, and sends what it has made right
afterwards. Two stages on one rank need no message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlib.scratch.pipeline.instructions import (
    Backward,
    BackwardInput,
    Forward,
    Instruction,
    Lists,
    Receive,
    ReceiveActivation,
    ReceiveGradient,
    Send,
    SendActivation,
    SendGradient,
    stages_in,
)


def with_messages(lists: Lists) -> list[list[Instruction]]:
    """Return the lists of all ranks with every send and receive that they need."""
    ranks, stages = len(lists), stages_in(lists)
    return [list(_with_messages(lines, ranks, stages)) for lines in lists]


def _with_messages(lines: Sequence[Instruction], ranks: int, stages: int) -> Iterator[Instruction]:
    for line in lines:
        m, s = line.micro_batch, line.stage
        before, after = ranks > 1 and s > 0, ranks > 1 and s < stages - 1
        forward, backward = isinstance(line, Forward), isinstance(line, Backward | BackwardInput)
        if forward and before:
            yield ReceiveActivation(m, s)
        if backward and after:
            yield ReceiveGradient(m, s)
        yield line
        if forward and after:
            yield SendActivation(m, s)
        if backward and before:
            yield SendGradient(m, s)


def peer(line: Send | Receive, ranks: int) -> int:
    """Return the rank to which a message goes, or from which it comes."""
    forward = isinstance(line, SendActivation | ReceiveGradient)
    return (line.stage + (1 if forward else -1)) % ranks


def sent_as(line: Receive) -> Send:
    """Return the instruction that sends what this one receives."""
    if isinstance(line, ReceiveActivation):
        return SendActivation(line.micro_batch, line.stage - 1)
    return SendGradient(line.micro_batch, line.stage + 1)


def received_as(line: Send) -> Receive:
    """Return the instruction that receives what this one sends."""
    if isinstance(line, SendActivation):
        return ReceiveActivation(line.micro_batch, line.stage + 1)
    return ReceiveGradient(line.micro_batch, line.stage - 1)


def receipts(lists: Lists, rank: int) -> dict[Receive, list[Send]]:
    """For each receive of a rank: which of its own sends have surely arrived by then.

    A message from a rank proves that this rank had received whatever comes before that send in its
    list. So the memory of those sends can be freed, although nobody ever answers them.
    """
    found: dict[Receive, list[Send]] = {}
    for lines in (lines for other, lines in enumerate(lists) if other != rank):
        arrived: list[Send] = []
        for line in lines:
            if isinstance(line, Receive) and peer(line, len(lists)) == rank:
                arrived.append(sent_as(line))
            elif isinstance(line, Send) and peer(line, len(lists)) == rank:
                found[received_as(line)], arrived = arrived, []
    return found
