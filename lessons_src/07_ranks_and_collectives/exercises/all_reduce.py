"""Exercise 7.3, second half: a ring all-reduce, with messages between neighbours only."""

import time

import torch
import torch.distributed as dist

from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.show import table
from dtlib.learn.solutions import altered, solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.scratch.ring import exchange  # noqa: F401  # the solution uses it

from . import ring_mistakes as told
from .reduce_scatter import (
    AGAINST,
    CUT,
    FLOAT,
    HALVES,
    PIECES,
    SHORT,
    TUPLE,
    cases,
    mistakes,
    sent,
)
from .reduce_scatter import ring_reduce_scatter as first_half

PROOF = 10_000  # random numbers: enough for two orders of adding to differ in some last bit
RACE = 1_000_000
SECOND = "(rank + 1 - s) % n, (rank - s) % n"  # words of the solution


def random(rank, n):
    return torch.randn(PROOF, generator=torch.Generator().manual_seed(rank))


def prove(x, n, seen):
    """Right sums are not enough: steps, bytes and bits."""
    first, target = seen[0], 2 * (n - 1)
    if x[0].numel() < PROOF:
        return None
    facts = {"sent": first.bytes_sent, "target": round(target / n * PROOF * FLOAT)}
    same_bits = len({one.bits for one in seen}) == 1
    if all(m.elements == PROOF for m in first.sent):
        return Wrong("whole_tensor_same_bits" if same_bits else "whole_tensor", **facts)
    if not same_bits:
        return Wrong("bits", **facts)
    most = target * -(-PROOF // n) * FLOAT
    if len(first.sent) > target:
        return Wrong("extra_step", steps=len(first.sent), enough=target)
    over = next((one for one in seen if one.bytes_sent > most), None)
    return over and Wrong("bytes", **facts | {"rank": over.rank, "sent": over.bytes_sent})


def passed(seen):
    first, n = seen[-1][0], len(seen[-1])
    what = f"bytes sent by rank 0 of {n} for {PROOF * FLOAT:,}"
    sent_ = (what, first.bytes_sent, 2 * (n - 1) * PROOF // n * FLOAT, "bytes")
    steps = ("steps", len(first.sent), 2 * (n - 1), "")
    return Passed((sent_, steps), "All ranks end with identical bits.")


def race(student):
    """After a pass: 4 MB on three ranks, the student's ring against torch's all_reduce."""
    from dtlib.ranks.launcher import launch

    mine, torchs = launch(race_on_rank, student, ranks=3, timeout=20, show=False)[0]
    return table(
        [["your ring", mine * 1e3], ["dist.all_reduce", torchs * 1e3]],
        ["", "ms"],
        "4 MB on 3 ranks of this machine, the best of 5",
    )


def race_on_rank(student):
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


ring_all_reduce = solution("ring_all_reduce", globals())
second_half = altered(ring_all_reduce, {"    first_half(x)\n": ""})


REBINDS = {CUT: f"list({CUT})", "chunks[into].copy_(arrived)": "chunks[into] = arrived"}


def spread(first, second=second_half):
    """A whole ring of two halves."""

    def whole(x):
        first(x)
        return second(x)

    return whole


EXERCISE = RankAnswer(
    ring_all_reduce,
    cases=list(cases(f"{PROOF:,} random numbers", random)),
    # An answer may change its argument and return nothing.
    read=lambda value, x: x if value is None else value,
    wire=sent,
    collectives=False,
    mistakes=[
        *mistakes(ring_all_reduce, spread),
        Mistake("chunk", spread(altered(first_half, PIECES), altered(second_half, PIECES)),
                told.chunk,
                hangs=True),
        Mistake("tuple", spread(altered(first_half, TUPLE)), told.of_a_tuple, hangs=True),
        Mistake("remainder",
                spread(altered(first_half, {CUT: SHORT}), altered(second_half, {CUT: SHORT})),
                told.in_no_chunk),
        Mistake("rebound", spread(first_half, altered(second_half, REBINDS)), told.rebound),
        Mistake(
            "mixed",
            spread(AGAINST, altered(second_half, {SECOND: "(rank + s - 1) % n, (rank + s) % n"})),
            told.mixed,
        ),
        Mistake("mean", {"return x": "return x / n"}, told.mean),
        Mistake("half", first_half, told.half),
        Mistake("unfinished", {SECOND: HALVES}, told.unfinished),
        Mistake("added", {"copy_": "add_"}, told.added),
    ],
    waste=prove,
    passed=passed,
    after_pass=race,
)  # fmt: skip
