"""Exercise 7.3: a ring all-reduce in two halves, with messages between neighbours only."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round, painted, painted_sum, placed, placed_sum
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine
from dtlib.learn.show import Shown, table
from dtlib.sim.collectives import ring_wire_elements

from . import ring_mistakes

FLOAT = 4  # bytes
PROOF = 10_000  # random numbers: enough for two orders of adding to differ in some last bit
RACE = 1_000_000


def check_whole(student: Callable[[torch.Tensor], Any]) -> Passed:
    """Check both halves: sums, then uneven and empty chunks, then bits and bytes."""
    proof = _random()
    rounds = examine(student, _plan(_whole, proof), ring_mistakes.explain_whole)
    for round_ in rounds:
        if round_.case is proof:
            _prove(round_)
    last = rounds[-1]
    sent = last.ranks[0].bytes_sent
    target = ring_wire_elements(PROOF, last.n) * FLOAT
    steps = len(last.ranks[0].sent)
    return Passed(
        (
            (f"bytes sent by rank 0 of {last.n} for {PROOF * FLOAT:,}", sent, target, "bytes"),
            ("steps", steps, 2 * (last.n - 1), ""),
        ),
        "All ranks end with identical bits.",
    )


def check_first_half(student: Callable[[torch.Tensor], Any]) -> Passed:
    """Check the first half alone: rank r finishes chunk r + 1."""
    rounds = examine(student, _plan(_half), ring_mistakes.explain_half)
    for round_ in rounds:
        _count_steps(round_, round_.n - 1)
    four = next(r for r in rounds if r.n == 4)
    seen = four.ranks[0]
    return Passed(
        (
            ("steps", len(seen.sent), 3, ""),
            (
                f"bytes sent by rank 0 of 4 for {four.case.label}",
                seen.bytes_sent,
                3 * 8 // 4 * FLOAT,
                "bytes",
            ),
        )
    )


def _plan(case: Callable[..., Case], *last: Case) -> list[tuple[int, list[Case]]]:
    """Equal chunks first: a message that is larger than its receiver makes gloo give up."""
    return [
        (1, [case(3)]),
        (3, [case(6), case(6, places=True), case(7), case(2), *last]),
        (4, [case(8), case(5), case(2), *last]),
    ]


def _whole(size: int, *, places: bool = False) -> Case:
    return Case(
        f"{size} numbers, 1 to {size} times 10**r" if places else f"{size} numbers",
        placed(size) if places else painted(size),
        placed_sum(size) if places else painted_sum(size),
        forbid_collectives=True,
        in_place=True,
    )


def _half(size: int, *, places: bool = False) -> Case:
    case = _whole(size, places=places)

    def finished_its_chunk(x: torch.Tensor, rank: int, n: int) -> bool:
        """Whether chunk rank + 1 is summed, and no other; cut either way that gives n pieces."""
        done = x.flatten() == case.want(rank, n)
        owned = ring_mistakes.owned(size, n, (rank + 1) % n)
        return any(torch.equal(done, own) for own in owned)

    return dataclasses.replace(case, judge=finished_its_chunk, x_counts=True)


def _random() -> Case:
    def make(rank: int, n: int) -> torch.Tensor:
        return torch.randn(PROOF, generator=torch.Generator().manual_seed(rank))

    def want(rank: int, n: int) -> torch.Tensor:
        return sum((make(r, n).double() for r in range(n)), torch.zeros(1).double()).float()

    return Case(
        f"{PROOF:,} random numbers",
        make,
        want,
        forbid_collectives=True,
        in_place=True,
        tolerance=1e-5,
    )


def _prove(round_: Round) -> None:
    """Right sums are not enough: steps, bytes and bits."""
    n, first = round_.n, round_.ranks[0]
    same_bits = len({seen.bits for seen in round_.ranks}) == 1
    target = round(2 * (n - 1) / n * PROOF * FLOAT)
    facts = {"sent": first.bytes_sent, "target": target}
    if all(m.elements == PROOF for m in first.sent):
        key = "whole_tensor" if not same_bits else "whole_tensor_same_bits"
        raise Wrong(key, round_.label, **facts)
    if not same_bits:
        raise Wrong("bits", round_.label, **facts)
    _count_steps(round_, 2 * (n - 1))
    for seen in round_.ranks:
        if seen.bytes_sent > 2 * (n - 1) * -(-PROOF // n) * FLOAT:
            raise Wrong("bytes", round_.label, **facts)


def _count_steps(round_: Round, target: int) -> None:
    steps = len(round_.ranks[0].sent)
    if steps > target:
        first_half = round_.n - 1 + steps - target
        raise Wrong("extra_step", round_.label, n=round_.n, steps=first_half)


def race(student: Callable[[torch.Tensor], Any]) -> Shown:
    """After a pass: 4 MB on three ranks, the student's ring against torch's all_reduce."""
    from dtlib.ranks.launcher import launch

    mine, torchs = launch(_race_on_rank, student, ranks=3, timeout=20, show=False)[0]
    return table(
        [["your ring", mine * 1e3], ["dist.all_reduce", torchs * 1e3]],
        ["", "ms"],
        "4 MB on 3 ranks of this machine, the best of 5",
    )


def _race_on_rank(student: Callable[[torch.Tensor], Any]) -> tuple[float, float]:
    best = []
    for function in (student, dist.all_reduce):
        times = []
        for _ in range(5):
            x = torch.ones(RACE)
            dist.barrier()
            start = time.perf_counter()
            function(x)
            times.append(time.perf_counter() - start)
        best.append(min(times))
    return best[0], best[1]
