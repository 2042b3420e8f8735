"""Exercise 16.2a: a rank keeps its own part of every micro-batch's gradient, averaged over ranks.

In micro-batch m, m = 0, 1, element j of rank r's gradient is (j + 1) · 10**r · 1000**m: after both,
element 0 of the mean over three ranks is 37037, and its digits tell which gradients are in it, and
how often.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.explanations import number, numbers
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.learn.wire import elements_sent
from dtlib.scratch.ring import reduce_scatter, ring_all_reduce, ring_reduce_scatter  # noqa: F401
from dtlib.sim.states import share

SHAPES = ((2,), (1, 2), (1,))
PSI = 5
LATER = 1000.0  # what the second micro-batch is painted with

add_gradients = solution("add_gradients", globals())


@dataclass
class Held:
    """What a rank holds afterwards.

    `of` is 1 for the right shard, otherwise each element's share of the right one; `left` says what
    keeps the rest of the gradient alive. `kept` and `storage` are bytes: of gradients in `p.grad`,
    and of the memory behind the shard.
    """

    of: Any
    left: str
    shard: list[float] = field(compare=False)
    kept: int = field(compare=False)
    storage: int = field(compare=False)


def paint(rank, micro_batch):
    """The gradient of all five elements that one backward leaves on a rank."""
    return torch.arange(1.0, PSI + 1) * 10.0**rank * LATER**micro_batch


def parts(n, micro_batches, rank):
    """The right shard, cut in either of two ways: as evenly as possible, or padded to one size."""
    whole = sum(paint(r, m) for r in range(n) for m in range(micro_batches)) / n
    padded = torch.cat([whole, torch.zeros(n * share(PSI, n) - PSI)])
    return [part[rank].tolist() for part in (whole.tensor_split(n), padded.chunk(n))]


def how_often(shard, ways, close):
    """1 for the right shard, otherwise each element's share of the right one."""
    for want in ways:
        if len(shard) == len(want):
            pairs = [(x, y) for x, y in zip(shard, want, strict=True) if x or y]  # no padding
            shares = [x / y if y else math.inf for x, y in pairs]
            return 1.0 if all(abs(x - 1) <= close for x in shares) else shares
    return shard


def run(answer, micro_batches, dtype):
    """Call the answer after each backward."""
    rank, n = dist.get_rank(), dist.get_world_size()
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES]
    shard: Any = None
    for m in range(micro_batches):
        pieces = paint(rank, m).to(dtype).split([p.numel() for p in parameters])
        for p, piece in zip(parameters, pieces, strict=True):  # as backward does: it adds
            new = piece.clone().view_as(p)
            p.grad = new if p.grad is None else p.grad + new
        shard = answer(parameters, shard)
        if not isinstance(shard, torch.Tensor):
            raise Wrong("none" if shard is None else "kind", rank=rank, got=type(shard).__name__)
    kept = sum(p.grad.nbytes for p in parameters if p.grad is not None)
    storage, values = shard.untyped_storage().nbytes(), shard.detach().flatten().tolist()
    close = 0.02 if dtype is torch.bfloat16 else 1e-5  # a few roundings of bf16, by 1/256 each
    of, left = how_often(values, parts(n, micro_batches, rank), close), ""
    if of == 1 and storage > 4 * len(values):
        left = "window"
    if of == 1 and micro_batches > 1 and kept:  # after one, nothing was counted twice yet
        left = "kept"
    return Held(of, left, values, kept, storage)


def own_part(flat):
    return flat.tensor_split(dist.get_world_size())[dist.get_rank()]


def next_part(flat):
    """What lesson 07's ring finishes: rank r has chunk r + 1."""
    rank, n = dist.get_rank(), dist.get_world_size()
    return ring_reduce_scatter(flat).tensor_split(n)[(rank + 1) % n]


def wrong_block(got, n, micro_batches):
    """Every rank has the right shard of another rank."""
    for turn in range(1, n):
        blocks = [parts(n, micro_batches[0], (rank + turn) % n) for rank in range(n)]
        if all(
            any(how_often(held.shard, [way], 1e-5) == 1 for way in ways)
            for held, ways in zip(got, blocks, strict=True)
        ):
            return {"block": turn}
    return False


def alone(got, n):
    """Every rank has its own gradient's part, or that divided by n."""
    own = [n * 10.0**rank / sum(10.0**r for r in range(n)) for rank in range(n)]
    for by in (1, n):
        pairs = zip(got, own, strict=True)
        if all(isinstance(h.of, list) and near(h.of, part / by) for h, part in pairs):
            return {"rank": 1, "got": numbers(got[1].shard)} if n > 1 else False
    return False


def near(values, want):
    return all(math.isclose(value, want, rel_tol=1e-5) for value in values)


def whole(got, n):
    return (
        n > 1
        and all(len(held.shard) == PSI for held in got)
        and {"bytes": 4 * PSI, "want": 4 * share(PSI, n)}
    )


def facts(got, want, n, seen):
    """Rank 0's shard, and the first shard that is wrong."""
    rank = next((one.rank for one in seen if not one.right), 0)
    held = got[rank]
    return {
        "got": numbers(got[0].shard), "want": numbers(want[0].shard), "psi": PSI,
        "has": numbers(held.shard), "right": numbers(want[rank].shard),
        "shard": 4 * len(held.shard), "kept": held.kept, "storage": held.storage,
    }  # fmt: skip


def most(n, micro_batches):
    """Elements that a rank has to send, however the gradient is cut."""
    return micro_batches * (n - 1) * share(PSI, n)


def plural(micro_batches):
    return f"{micro_batches} micro-batch{'es' * (micro_batches > 1)}"


def waste(seen, n, micro_batches):
    k = micro_batches[0]
    for one in seen:
        sent, enough = elements_sent(one.messages, n), most(n, k)
        if sent > enough:
            facts = {"rank": one.rank, "got": number(sent), "want": enough}
            return Wrong("too_much", batches=plural(k), **facts)
    return None


def passed(seen):
    ranks = seen[-2]  # two micro-batches on four ranks
    held, sent = ranks[0].got, max(elements_sent(one.messages, 4) for one in ranks)
    return Passed(
        (
            ("gradient held by rank 0 of 4", held.storage, 4 * len(held.shard), "bytes"),
            ("sent by a rank in two micro-batches, at most", number(sent), most(4, 2), "elements"),
        )
    )


def case(n, micro_batches, dtype):
    low = " in bf16" * (dtype is torch.bfloat16)
    words = f"{PSI} elements, {plural(micro_batches)}{low}"
    return n, words, lambda rank, n: (micro_batches, dtype)


MEAN = "reduce_scatter(flat) / dist.get_world_size()"

EXERCISE = RankAnswer(
    add_gradients,
    run=run,
    cases=[
        case(n, *given)
        for n in (1, 3, 4)
        for given in ((1, torch.float32), (2, torch.float32), (1, torch.bfloat16))
    ],
    mistakes=[
        ("sum", {MEAN: "reduce_scatter(flat)"}),
        ("divided_twice", {"(flat) /": "(flat / dist.get_world_size()) /"}),
        ("only_last", {" if shard is None else shard + mine": ""}),
        ("counted_twice", {"p.grad = None": "pass"}),
        ("halved", {"shard + mine": "(shard + mine) / 2"}),
        ("kept", {"p.grad = None": "p.grad.zero_()"}),
        ("window", {MEAN: "reduce_scatter(flat / dist.get_world_size())"}),
        ("window", {MEAN: "reduce_scatter(flat).div_(dist.get_world_size())",
                    "shard + mine": "shard.add_(mine)"}),
        Mistake("wrong_block", {"reduce_scatter(flat)": "next_part(flat)"}, when=wrong_block),
        Mistake("alone", {"reduce_scatter(flat)": "own_part(flat)"}, when=alone),
        Mistake("whole", {"reduce_scatter(flat)": "ring_all_reduce(flat)"}, when=whole),
    ],
    other="shard",
    wire=lambda seen: None,  # the painted numbers tell how it was made
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
