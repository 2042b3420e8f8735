"""Exercise 16.2a: of every micro-batch's gradient a rank keeps the mean over ranks of its own part.

In micro-batch m, m = 0, 1, element j of rank r's gradient is (j + 1) · 10**r · 1000**m: after both,
element 0 of the mean over three ranks is 37037, and a number tells which parts are in it how often.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number, numbers
from dtlib.scratch import ring
from dtlib.sim.states import share

from ..elements import elements_sent

SHAPES = ((2,), (1, 2), (1,))
PSI = 5
LATER = 1000.0  # what the second micro-batch is painted with


def reference(parameters: Sequence[torch.nn.Parameter], shard: torch.Tensor | None) -> torch.Tensor:
    """Pack, drop, reduce-scatter, add."""
    flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
    for p in parameters:
        p.grad = None
    mine = ring.reduce_scatter(flat) / dist.get_world_size()
    return mine if shard is None else shard + mine


def check(student: Callable[..., Any]) -> Passed:
    """Run one micro-batch, two, and one in bf16 on 1, 3 and 4 ranks."""
    for n in (1, 3, 4):
        plan = [(n, [_case(1), _case(2), _case(1, torch.bfloat16)])]
        rounds = examine(functools.partial(_on_rank, student), plan, explain)
        for round_ in rounds:
            _sent(round_)
    last = rounds[1].ranks[0]
    most = max(elements_sent(seen.messages, 4) for seen in rounds[1].ranks)
    shard, _, storage = _parts(last.values)
    return Passed(
        (
            ("gradient held by rank 0 of 4", int(storage), 4 * len(shard), "bytes"),
            ("sent by a rank in two micro-batches, at most", number(most), 12, "elements"),
        )
    )


def paint(rank: int, micro_batch: int) -> torch.Tensor:
    """The gradient of all five elements that one backward leaves on a rank."""
    return torch.arange(1.0, PSI + 1) * 10.0**rank * LATER**micro_batch


def mean(n: int, micro_batches: int) -> torch.Tensor:
    """What all ranks together should hold."""
    ranks = [sum(paint(rank, m) for m in range(micro_batches)) for rank in range(n)]
    return torch.stack(ranks).mean(0)  # type: ignore[arg-type]


def parts(whole: torch.Tensor, rank: int, n: int) -> list[torch.Tensor]:
    """The two ways to cut: as even as it goes, and padded to one size."""
    padded = torch.cat([whole, torch.zeros(n * share(PSI, n) - PSI)])
    return [whole.tensor_split(n)[rank], padded.chunk(n)[rank]]


def _case(micro_batches: int, dtype: torch.dtype = torch.float32) -> Case:
    low = dtype is torch.bfloat16
    close = 0.02 if low else 1e-5  # a few roundings of bf16, by 1/256 each

    def judge(result: torch.Tensor, rank: int, n: int) -> bool:
        shard, kept, storage = _parts(result.tolist())
        whole = mean(n, micro_batches)
        if not any(_same(shard, part.tolist(), close) for part in parts(whole, rank, n)):
            return False
        # With one micro-batch what is left behind has not counted twice yet.
        return micro_batches == 1 or (not kept and storage <= 4 * len(shard))

    return Case(
        f"{PSI} elements, {micro_batches} micro-batch{'es' * (micro_batches > 1)}"
        + " in bf16" * low,
        make=lambda rank, n: torch.tensor([micro_batches, low]),
        want=lambda rank, n: parts(mean(n, micro_batches), rank, n)[0],
        judge=judge,
    )


def _on_rank(student: Callable[..., Any], asked: torch.Tensor) -> Any:
    """Return the shard, the bytes of gradients that are left, and the bytes behind the shard."""
    dtype = torch.bfloat16 if asked[1] else torch.float32
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES]
    shard = None
    for m in range(int(asked[0])):
        pieces = paint(dist.get_rank(), m).to(dtype).split([p.numel() for p in parameters])
        for p, piece in zip(parameters, pieces, strict=True):  # as backward does: it adds
            new = piece.clone().view_as(p)
            p.grad = new if p.grad is None else p.grad + new
        shard = student(parameters, shard)
        if not isinstance(shard, torch.Tensor):
            return shard
    assert shard is not None
    kept = sum(p.grad.nbytes for p in parameters if p.grad is not None)
    behind = [kept, shard.untyped_storage().nbytes()]
    return torch.cat([shard.detach().flatten().double(), torch.tensor(behind).double()])


def _micro_batches(round_: Round) -> int:
    return int(round_.case.make(0, round_.n)[0])


def _parts(values: Sequence[float]) -> tuple[list[float], float, float]:
    return list(values[:-2]), values[-2], values[-1]


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by what each rank holds afterwards."""
    if round_.failures or any(len(seen.values) < 2 for seen in round_.ranks):
        return None
    n, k = round_.n, _micro_batches(round_)
    held = [_parts(seen.values) for seen in round_.ranks]
    shards = [shard for shard, _, _ in held]
    want = parts(mean(n, k), 0, n)[0].tolist()
    facts = {"got": numbers(shards[0]), "want": numbers(want), "n": n, "first": number(want[0])}
    for key, whole in _candidates(n, k):
        if _holds(shards, whole):
            return Wrong(key, round_.label, **facts)
    if _holds(shards, mean(n, k)):
        return _left_over(round_, held)
    for turn in range(1, n):
        blocks = [parts(mean(n, k), (rank + turn) % n, n) for rank in range(n)]
        if all(any(_same(s, b.tolist()) for b in bs) for s, bs in zip(shards, blocks, strict=True)):
            return Wrong("wrong_block", round_.label, block=turn, **facts)
    return _other(round_, shards, n, k)


def _candidates(n: int, k: int) -> list[tuple[str, torch.Tensor]]:
    """What all ranks together would hold after each mistake."""
    right = mean(n, k)
    found = [("sum", right * n), ("divided_twice", right / n)] if n > 1 else []
    if k == 2:
        first, last = mean(n, 1), right - mean(n, 1)
        found += [("only_last", last), ("counted_twice", right + first)]
        found += [("halved", right / 2)]
    return found


def _holds(shards: list[list[float]], whole: torch.Tensor) -> bool:
    n = len(shards)
    ways = [[part.tolist() for part in parts(whole, rank, n)] for rank in range(n)]
    return all(any(_same(s, w) for w in both) for s, both in zip(shards, ways, strict=True))


def _left_over(round_: Round, held: list[tuple[list[float], float, float]]) -> Wrong:
    rank = next(r for r, (s, kept, storage) in enumerate(held) if kept or storage > 4 * len(s))
    shard, kept, storage = held[rank]
    facts = {"rank": rank, "n": round_.n, "shard": 4 * len(shard), "psi": PSI}
    if kept:
        return Wrong("kept", round_.label, kept=int(kept), **facts)
    return Wrong("window", round_.label, storage=int(storage), **facts)


def _other(round_: Round, shards: list[list[float]], n: int, k: int) -> Wrong:
    own = [sum(paint(rank, m) for m in range(k)) for rank in range(n)]
    alone = [parts(whole, rank, n) for rank, whole in enumerate(own)]  # type: ignore[arg-type]
    facts: dict[str, Any] = {"n": n}
    if all(
        any(_same(s, f * p) for p in both for f in (1, 1 / n))
        for s, both in zip(shards, alone, strict=True)
    ):
        rank = min(1, n - 1)
        return Wrong("alone", round_.label, rank=rank, got=numbers(shards[rank]), **facts)
    if all(len(s) == PSI for s in shards) and n > 1:
        return Wrong("whole", round_.label, bytes=4 * PSI, want=4 * share(PSI, n), **facts)
    ways = [parts(mean(n, k), rank, n) for rank in range(n)]
    rank = next(
        r for r, s in enumerate(shards) if not any(_same(s, part.tolist()) for part in ways[r])
    )
    facts |= {"rank": rank, "got": numbers(shards[rank]), "want": numbers(ways[rank][0].tolist())}
    return Wrong("shard", round_.label, **facts)


def _sent(round_: Round) -> None:
    n, k = round_.n, _micro_batches(round_)
    for seen in round_.ranks:
        got, want = elements_sent(seen.messages, n), k * (n - 1) * share(PSI, n)
        if got > want:
            facts = {"rank": seen.rank, "n": n, "got": number(got), "want": want}
            batches = f"{k} micro-batch{'es' * (k > 1)}"
            raise Wrong("too_much", round_.label, batches=batches, psi=PSI, **facts)


def _same(a: Sequence[float], b: Any, close: float = 1e-5) -> bool:
    b = b.tolist() if isinstance(b, torch.Tensor) else b
    return len(a) == len(b) and all(
        abs(x - y) <= close * max(1.0, abs(y)) for x, y in zip(a, b, strict=True)
    )
