"""Exercise 19.4: an optimizer that needs whole matrices, on shards: Muon."""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

from dtlib.learn.explanations import number, numbers
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.measure.ledger.collectives import CollectiveLog

from ..orthogonal import orthogonalize

STEPS, RATE = 2, 0.1

muon_step = solution("muon_step", globals())


@dataclass
class After:
    """This rank's rows of the weight and of the momentum after two steps."""

    weight: list[float]
    momentum: list[float]
    sent: float = field(compare=False)  # bytes on a ring, in a step


def drawn(seed, shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def cut(whole, mesh):
    """A DTensor of shards by rows, as `fully_shard` makes them; every rank has the whole."""
    return distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)


def run(answer, rows, columns):
    shape = (rows, columns)
    mesh = DeviceMesh.from_group(dist.distributed_c10d._get_default_group(), "cpu")
    weight: Any = torch.nn.Parameter(cut(drawn(1, shape), mesh))
    momentum, log = cut(torch.zeros(shape), mesh), CollectiveLog()
    for step in range(STEPS):
        weight.grad = cut(drawn(2 + step, shape), mesh)
        before = weight.grad.to_local().clone()
        with torch.no_grad(), log:
            answer(weight, momentum, RATE)
        if not torch.equal(weight.grad.to_local(), before):
            raise Wrong("changed", rank=dist.get_rank())
    local = [tensor.to_local() for tensor in (weight.data, momentum)]
    sent = sum(tally.wire for tally in log.tallies.values()) / STEPS
    weights, momenta = (x.flatten().tolist() for x in local)
    return After(weights, momenta, sent)


def enough(rows, columns, n):
    """Bytes of one gather of the matrix, padded to equal shards."""
    return 4 * (n - 1) * -(-rows // n) * columns


def waste(got, rows, columns, n):
    """One gather of the matrix in each step."""
    most = max(range(n), key=lambda rank: got[rank].sent)
    if got[most].sent > enough(rows[0], columns[0], n) + 1:
        want = enough(rows[0], columns[0], n)
        return Wrong("sent_again", rank=most, got=number(got[most].sent), want=want)
    return None


def facts(got, want, rows, columns, n):
    """The number of a weight that is furthest off; of the momentum if the weights are right."""
    pairs = [
        (abs(a - b), rank, kind, a, b)
        for kind in ("weight", "momentum")
        for rank in range(n)
        for a, b in zip(getattr(got[rank], kind), getattr(want[rank], kind), strict=True)
    ]
    weights = [pair for pair in pairs if pair[2] == "weight" and not pair[0] <= 1e-4]
    _, rank, kind, value, right = max(weights or pairs, key=lambda pair: pair[0])
    return {
        "kind": kind, "got": number(value), "want": number(right), "rank": rank, "n": n,
        "rows": numbers(rows_of(rows[0], n)), "size": f"{rows[0]} rows",
    }  # fmt: skip


def unmoved(got, rows, columns):
    """The weight is still what it was."""
    here = [x for one in got for x in one.weight]
    start = drawn(1, (rows[0], columns[0])).flatten().tolist()
    return all(abs(a - b) < 1e-6 for a, b in zip(here, start, strict=True))


def absent(seen):
    """Some rank waits in a collective that another has not called."""
    waiting = [s.rank for s in seen if s.failure and (s.failure.waited_in or s.failure.peer_gone)]
    gone = [one.rank for one in seen if one.failure is None]
    return bool(waiting and gone) and {"rank": waiting[0], "gone": gone[0]}


def mixed(seen):
    words = "mixed torch.Tensor and DTensor"
    return all(one.failure and words in one.failure.message for one in seen)


def uneven(seen, rows, n):
    """A rank's slice has another number of rows than its shard."""
    if not any(one.failure and "must match" in one.failure.message for one in seen):
        return False
    return {"rows": numbers(rows_of(rows[0], n)), "size": f"{rows[0]} rows"}


def chunk(seen):
    """`chunk` gives fewer parts than ranks if the last would have no row."""
    return any(one.failure and "tuple index" in one.failure.message for one in seen)


def rows_of(rows, n):
    """How many rows each rank has."""
    each = -(-rows // n)
    return [max(0, min(rows - rank * each, each)) for rank in range(n)]


def own_rows(p, momentum, lr):
    momentum.mul_(0.95).add_(p.grad)
    mine = momentum.to_local()
    p.to_local().add_(orthogonalize(mine) if mine.numel() else mine, alpha=-lr)


def own_size_times_rank(p, momentum, lr):
    momentum.mul_(0.95).add_(p.grad)
    update, mine = orthogonalize(momentum.full_tensor()), p.to_local()
    first = dist.get_rank() * len(mine)
    mine.sub_(lr * update[first : first + len(mine)])


def rank_0_alone(p, momentum, lr):
    if dist.get_rank() == 0:
        muon_step(p, momentum, lr)


def other_rows(p, momentum, lr):
    """The slice of the rank before this one, padded or cut to this one's size."""
    momentum.mul_(0.95).add_(p.grad)
    update, mine = orthogonalize(momentum.full_tensor()), p.to_local()
    mine.add_(update.roll(len(mine), 0)[-len(mine) :] if len(mine) else mine, alpha=-lr)


def passed(seen):
    sent = max(one.got.sent for one in seen[-1])
    return Passed((("sent by a rank of 3 in a step", number(sent), enough(4, 8, 3), "bytes"),))


def case(n, rows, columns):
    return n, f"a weight of {rows} rows and {columns} columns", lambda rank, n: (rows, columns)


# words of the solution
MOMENTUM, WHOLE = "momentum.mul_(0.95).add_(p.grad)", "momentum.full_tensor()"
UPDATE = "orthogonalize(whole)"
CUT = "distribute_tensor(update, mesh, places, src_data_rank=None)"
MOVE = "p.add_(mine, alpha=-lr)"

EXERCISE = RankAnswer(
    muon_step,
    run=run,
    cases=[case(1, 3, 4), case(3, 6, 4), case(3, 7, 4), case(3, 4, 8)],
    mistakes=[
        ("own_rows", own_rows),
        ("other_rows", other_rows),
        ("other_rows", own_size_times_rank),
        ("gradient", {WHOLE: "p.grad.full_tensor()"}),
        ("no_decay", {MOMENTUM: "momentum.add_(p.grad)"}),
        ("momentum_lost", {MOMENTUM: "momentum = momentum * 0.95 + p.grad"}),
        ("decayed_gradient", {MOMENTUM: "momentum.mul_(0.95).add_(p.grad, alpha=0.05)",
                              UPDATE: "whole"}),
        ("running_mean", {MOMENTUM: "momentum.mul_(0.95).add_(p.grad, alpha=0.05)"}),
        ("not_orthogonal", {UPDATE: "whole"}),
        ("not_orthogonal", {UPDATE: "whole / whole.norm()"}),
        ("sign", {MOVE: "p.add_(mine, alpha=lr)"}),
        ("no_rate", {MOVE: "p.sub_(mine)"}),
        ("summed", {UPDATE: "orthogonalize(whole) * dist.get_world_size()"}),
        ("momentum_late", {f"    {MOMENTUM}\n": "", MOVE: f"{MOVE}\n    {MOMENTUM}"}),
        Mistake("unmoved", {MOVE: "p = p - lr * mine"}, when=unmoved),
        Mistake("mixed", {CUT: "update"}, when=mixed),
        Mistake("uneven", {CUT: "update.tensor_split(dist.get_world_size())[dist.get_rank()]",
                           MOVE: "p.to_local().add_(mine, alpha=-lr)"},
                when=uneven, hangs=True),
        Mistake("chunk", {CUT: "update.chunk(dist.get_world_size())[dist.get_rank()]",
                          MOVE: "p.to_local().add_(mine, alpha=-lr)"}, when=chunk, hangs=True),
        Mistake("absent", rank_0_alone, when=absent, hangs=True),
    ],
    other="unrecognised",
    same=1e-4,
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
