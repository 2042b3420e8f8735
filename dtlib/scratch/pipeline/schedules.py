"""Four schedules of a pipeline: who computes what in which order, before anything runs.

Each function returns the list of one rank; the messages between ranks follow from the lists
(`messages.py`). Forward, input gradient and weight gradient take times F, B and W.

- GPipe: Y. Huang et al., NeurIPS 2019, arXiv:1811.06965.
- 1F1B (PipeDream-Flush) and interleaved: D. Narayanan et al., SC21, arXiv:2104.04473, section 2.2.
- ZB-H1: P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dtlib.errors import BadInput
from dtlib.scratch.pipeline.instructions import (
    Backward,
    BackwardInput,
    BackwardWeight,
    Compute,
    Forward,
)

Schedule = Callable[[int, int, int], Sequence[Compute]]  # of rank, ranks and micro-batches


def gpipe(rank: int, ranks: int, micro_batches: int) -> list[Compute]:
    """All forwards, then all backwards, last micro-batch first: M micro-batches are kept."""
    forwards = [Forward(m, rank) for m in range(micro_batches)]
    return [*forwards, *(Backward(m, rank) for m in reversed(range(micro_batches)))]


def one_forward_one_backward(rank: int, ranks: int, micro_batches: int) -> list[Compute]:
    """Begin a backward as soon as there is one: at most N - rank micro-batches are kept.

    Rank r runs N - 1 - r forwards first (the warm-up): as many as it has time for until micro-batch
    0 reaches the last rank. Then one forward and one backward in turn; then the backwards left.
    """
    forwards = [Forward(m, rank) for m in range(micro_batches)]
    backwards = [Backward(m, rank) for m in range(micro_batches)]
    return _in_turn(forwards, backwards, ranks - 1 - rank)


def interleaved(chunks: int) -> Schedule:
    """1F1B with `chunks` stages on each rank: a bubble that is as many times shorter.

    Micro-batches come in groups of N; a group runs through a rank's first stage, then through its
    second, and so on. A rank between two others sends `chunks` times as many messages.
    """

    def schedule(rank: int, ranks: int, micro_batches: int) -> list[Compute]:
        if micro_batches % ranks:
            raise BadInput(
                f"the interleaved schedule takes micro-batches in groups of {ranks}, one for each "
                f"rank, but there are {micro_batches}: choose a multiple of {ranks}."
            )
        order = [
            (group + m, chunk)
            for group in range(0, micro_batches, ranks)
            for chunk in range(chunks)
            for m in range(ranks)
        ]
        forwards = [Forward(m, chunk * ranks + rank) for m, chunk in order]
        backwards = [Backward(m, (chunks - 1 - chunk) * ranks + rank) for m, chunk in order]
        return _in_turn(forwards, backwards, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks)

    return schedule


def zero_bubble_h1(rank: int, ranks: int, micro_batches: int) -> list[Compute]:
    """1F1B whose backward is split, ZB-H1: weight gradients fill what was the bubble.

    Rank r runs the weight gradient of a micro-batch r input gradients later than it could. So
    every rank keeps at most N micro-batches, as rank 0 does in 1F1B.
    """
    pairs = one_forward_one_backward(rank, ranks, micro_batches)
    lines: list[Compute] = []
    late: list[Compute] = []
    for line in pairs:
        if isinstance(line, Forward):
            lines.append(line)
            continue
        lines.append(BackwardInput(line.micro_batch, rank))
        late.append(BackwardWeight(line.micro_batch, rank))
        lines += [late.pop(0)] if len(late) > rank else []
    return [*lines, *late]


def for_all_ranks(schedule: Schedule, ranks: int, micro_batches: int) -> list[list[Compute]]:
    """Return the lists of all ranks."""
    return [list(schedule(rank, ranks, micro_batches)) for rank in range(ranks)]


def _in_turn(
    forwards: Sequence[Compute], backwards: Iterable[Compute], warm_up: int
) -> list[Compute]:
    """Some forwards, then a forward and a backward in turn, then the backwards that are left."""
    ahead, rest = forwards[:warm_up], forwards[warm_up:]
    back = iter(backwards)
    pairs = [line for forward in rest for line in (forward, next(back))]
    return [*ahead, *pairs, *back]
