"""What is wrong with a schedule, in a sentence that names the rank and its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlib.errors import BadInput
from dtlib.scratch.pipeline.instructions import (
    Backward,
    BackwardInput,
    BackwardWeight,
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
from dtlib.scratch.pipeline.messages import peer, received_as, sent_as


def refuse_incomplete(lists: Lists) -> None:
    """Refuse lists in which a line is missing, is there twice, or lies on the wrong rank."""
    ranks = len(lists)
    every: set[Instruction] = set()
    for rank, lines in enumerate(lists):
        for number, line in enumerate(lines):
            owner = line.stage % ranks
            if owner != rank:
                raise BadInput(
                    f"{place(lists, rank, number)} is for stage {line.stage}, which is on rank "
                    f"{owner}: move it to that rank's list."
                )
            if line in every:
                raise BadInput(f"{place(lists, rank, number)} is there twice: keep one of them.")
            every.add(line)
    micro_batches = 1 + max((line.micro_batch for line in every), default=-1)
    for s in range(stages_in(lists)):
        for m in range(micro_batches):
            _refuse_missing(every, m, s, s % ranks)
    for line in sorted((line for line in every if isinstance(line, Send | Receive)), key=repr):
        other = received_as(line) if isinstance(line, Send) else sent_as(line)
        if other not in every:
            raise BadInput(
                f"rank {line.stage % ranks} has {line}, but rank {peer(line, ranks)} has no "
                f"{other}: add it there."
            )


def _refuse_missing(every: set[Instruction], m: int, s: int, rank: int) -> None:
    """Refuse a micro-batch that a stage does not run forward and backward, once each."""
    whole, halves = Backward(m, s), (BackwardInput(m, s), BackwardWeight(m, s))
    if Forward(m, s) not in every:
        raise BadInput(f"rank {rank}'s list has no {Forward(m, s)}: add it.")
    missing = [half for half in halves if half not in every]
    if whole in every and len(missing) < 2:
        raise BadInput(f"rank {rank}'s list has {whole} and a half of it, too: keep one.")
    if whole not in every and len(missing) == 2:
        raise BadInput(
            f"rank {rank}'s list has {Forward(m, s)}, but no {whole}: add it, or drop the forward "
            "if there is no such micro-batch."
        )
    if whole not in every and missing:
        raise BadInput(f"rank {rank}'s list has no {missing[0]}: add it.")


def refuse_early(lists: Lists) -> None:
    """Refuse lists in which a line comes before something that its own rank has to do first."""
    stages = stages_in(lists)
    for rank, lines in enumerate(lists):
        done: set[Instruction] = set()
        for number, line in enumerate(lines):
            for needed in _needs(line, stages, alone=len(lists) == 1):
                if needed not in done:
                    raise BadInput(f"{place(lists, rank, number)}, needs {needed} before it.")
            done.add(line)
            if isinstance(line, Backward):  # which makes the gradient of the input, too
                done.add(BackwardInput(line.micro_batch, line.stage))


def refuse_stuck(lists: Lists, at: Sequence[int]) -> None:
    """Refuse lists that do not come to their end, because ranks wait for each other."""
    rank = next((r for r, lines in enumerate(lists) if at[r] < len(lines)), None)
    if rank is None:
        return
    line = lists[rank][at[rank]]
    assert isinstance(line, Send | Receive)  # nothing else waits
    other = peer(line, len(lists))
    raise BadInput(
        f"{place(lists, rank, at[rank])} waits for rank {other}, which waits itself "
        f"({place(lists, other, at[other])}): all wait in a circle, so one of these lines has to "
        "come earlier or later."
    )


def _needs(line: Instruction, stages: int, alone: bool) -> Iterator[Instruction]:
    """Yield what has to be done on the same rank before a line."""
    m, s = line.micro_batch, line.stage
    match line:
        case Forward() if s > 0:
            yield Forward(m, s - 1) if alone else ReceiveActivation(m, s)
        case Backward() | BackwardInput():
            yield Forward(m, s)
            if s < stages - 1:
                yield BackwardInput(m, s + 1) if alone else ReceiveGradient(m, s)
        case SendActivation():
            yield Forward(m, s)
        case BackwardWeight() | SendGradient():
            yield BackwardInput(m, s)


def place(lists: Lists, rank: int, number: int) -> str:
    """Say where a line is; lines are counted from 1."""
    return f"rank {rank}, line {number + 1}, {lists[rank][number]}"
