"""Exercise 8.4: buckets that leave while backward runs, and stay during all micro-batches but one.

The gradient of every number is painted: 10**r on rank r, times 1, 2 and 4 in three micro-batches.
On three ranks 37 is the mean of one micro-batch, 259 that of all three, 148 of the newest alone.
The link of the check delivers when it is waited for, and not before: who does not wait has his own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number
from dtlib.scratch.data_parallel import unpack

from .overlap_world import (
    ADAMW,
    LABELS,
    LAYERS,
    MICRO,
    ORDER,
    PLAIN,
    SGD,
    Facts,
    on_rank,
    want,
)


def reference(buckets: Any, all_reduce: Any, talk: Any) -> Callable[[], None]:
    """Count down each bucket, start those that are full in order, and wait once a step."""
    home = {p: k for k, bucket in enumerate(buckets) for p in bucket}
    missing = [len(bucket) for bucket in buckets]
    sent: list[Any] = []

    def hook(p: Any) -> None:
        if not talk():
            return
        missing[home[p]] -= 1
        while len(sent) < len(buckets) and missing[len(sent)] == 0:
            flat = torch.cat([q.grad.flatten() for q in buckets[len(sent)]])
            sent.append((flat, all_reduce(flat)))

    def wait() -> None:
        for bucket, (flat, work) in zip(buckets, sent, strict=True):
            work.wait()
            unpack(flat.div_(dist.get_world_size()), [p.grad for p in bucket])
        missing[:] = [len(bucket) for bucket in buckets]
        sent.clear()

    for p in home:
        p.register_post_accumulate_grad_hook(hook)
    return wait


def check(student: Callable[..., Any]) -> Passed:
    """Two steps on 1, 3 and 4 ranks: plain, in another order, accumulated, with two optimizers."""
    case = {label: _case(k) for k, label in enumerate(LABELS)}
    proofs = [case[SGD], case[ADAMW]]
    plan = [
        (1, [case[PLAIN], case[MICRO]]),
        (3, [case[PLAIN], case[ORDER], case[MICRO], *proofs]),
        (4, [case[PLAIN], case[ORDER], case[MICRO], *proofs]),
    ]
    rounds = examine(functools.partial(on_rank, student), plan, explain)
    facts = next(Facts.of(r.ranks[0].values) for r in rounds if r.n == 4 and r.case.label == MICRO)
    return Passed(
        (
            ("messages a step of 3 micro-batches", int(facts.starts), int(facts.buckets), ""),
            ("bytes given to the link in it", int(facts.bytes), int(facts.target), "bytes"),
            ("messages that left while backward ran", int(facts.early), int(facts.buckets), ""),
        ),
        "Every all-reduce was on its way before backward ended.",
    )


def _case(kind: int) -> Case:
    return Case(
        LABELS[kind],
        make=lambda rank, n: torch.tensor([float(kind)]),
        want=lambda rank, n: want(kind, n),
        judge=lambda result, rank, n: _judge(kind, result, n),
    )


def _judge(kind: int, result: torch.Tensor, n: int) -> bool:
    facts, right = Facts.of(result.tolist()), want(kind, n).tolist()
    return facts.clean and _close(facts.numbers, right)


def _close(found: list[float], right: list[float]) -> bool:
    # float64; a sum of four painted numbers is exact, its division rounds once.
    return len(found) == len(right) and all(
        abs(a - b) <= 1e-9 * max(1.0, abs(b)) for a, b in zip(found, right, strict=True)
    )


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by what left when, and by what is in the gradients."""
    if round_.failures:
        return _failed(round_)
    if any(s.kind != "tensor" for s in round_.ranks):
        return None
    facts = [Facts.of(s.values) for s in round_.ranks]
    right = round_.ranks[0].want
    return _traffic(round_, facts) or _values(round_, facts, right)


def _failed(round_: Round) -> Wrong | None:
    own = [(rank, f) for rank, f in round_.failures if f.own]
    if not own:
        return None
    failure = own[0][1]
    if failure.error == "NoWait":
        return Wrong("returns", round_.label, got=failure.message)
    if "NoneType" in failure.message and round_.case.label == PLAIN:
        return Wrong("tensor_hook", round_.label, error=failure.error)
    return None


def _traffic(round_: Round, facts: list[Facts]) -> Wrong | None:
    f, label = facts[0], round_.case.label
    told = {"n": round_.n, "buckets": int(f.buckets), "starts": int(f.starts)}
    told |= {"bytes": int(f.bytes), "target": int(f.target), "again": int(f.again)}
    if not f.starts and not f.again:
        return Wrong("silent", round_.label, **told)
    if not f.starts:
        return Wrong("tensor_hook", round_.label, error="no message")
    if label == MICRO and f.bytes > f.target:
        return Wrong("every_micro_batch", round_.label, **told)
    if label == MICRO and f.first_micro < 2:
        return Wrong("too_soon", round_.label, micro=int(f.first_micro) + 1, **told)
    if f.starts > f.buckets:
        return Wrong("one_by_one", round_.label, **told)
    if f.early < f.starts:
        return Wrong("late", round_.label, late=int(f.starts - f.early), **told)
    if f.changed:
        return Wrong("divides_early", round_.label, **told)
    if label == ORDER and len({g.first_bucket for g in facts}) > 1:
        first = {k: int(g.first_bucket) for k, g in (("zero", facts[0]), ("one", facts[1]))}
        return Wrong("swapped", round_.label, **told, **first)
    if f.unwaited:
        return Wrong("no_wait", round_.label, unwaited=int(f.unwaited), **told)
    if f.again < f.starts:
        return Wrong("not_reset", round_.label, **told)
    if f.inside:
        return Wrong("waits_inside", round_.label, inside=int(f.inside), **told)
    return None


def _values(round_: Round, facts: list[Facts], right: list[float]) -> Wrong | None:
    f, n, label = facts[0], round_.n, round_.case.label
    painted = label in (PLAIN, MICRO, ORDER)
    if not painted or not f.numbers:
        return Wrong("drift", round_.label, optimizer=label)
    got, mean = f.numbers[0], right[0]
    told = {"n": n, "got": number(got), "want": number(mean)}
    if n > 1 and _near(got, mean * n):
        return Wrong("sum", round_.label, **told)
    if label == MICRO and _near(got, mean * 4 / 7):
        return Wrong("newest", round_.label, **told)
    if n > 1 and _near(got, mean / n):
        return Wrong("twice", round_.label, **told)
    rank = next(r for r, g in enumerate(facts) if not _close(g.numbers, right))
    seen = facts[rank].numbers
    place = next((i for i, (a, b) in enumerate(zip(seen, right, strict=False)) if a != b), 0)
    where = f"{LAYERS[place] if label != ORDER else 'a gradient'}"
    told |= {"got": number(seen[place]), "want": number(right[place])}
    return Wrong("other", round_.label, rank=rank, where=where, **told)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(1.0, abs(b))
