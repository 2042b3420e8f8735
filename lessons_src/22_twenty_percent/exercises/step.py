"""Exercise 22.2: a step that says less and waits less, and leaves the same weights.

The painted gradient of a sample is 10**r on rank r, times 2, 4, 9 and 13 in four micro-batches,
whose mean is 7: on three ranks 259 is right, 1036 is not divided by the micro-batches, 120.25 is
the newest alone, and 7, 70, 700 never met.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number
from dtlib.learn.probe import plain_group

from .step_world import (
    ADAMW,
    COUNTS,
    LABELS,
    MICRO,
    NUMBER,
    PAINT,
    PAINTED,
    PLAIN,
    SGD,
    Facts,
    on_rank,
    want,
)

GRADIENTS = PAINTED * NUMBER  # bytes
TOLERANCE = 1e-6  # relative; in float64 another order of sums makes 1e-15


def reference(model: Any, optimizer: Any, loss_fn: Any, micro_batches: Any) -> torch.Tensor:
    """Send the gradients with the last micro-batch, the loss once, and read nothing."""
    optimizer.zero_grad()
    total: Any = 0.0
    for k, (x, y) in enumerate(micro_batches, start=1):
        last = k == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
        total = total + loss.detach()
    dist.all_reduce(total)
    optimizer.step()
    return total / dist.get_world_size()


def check(student: Callable[..., Any]) -> Passed:
    """Two steps on 1, 3 and 4 ranks: painted, and with SGD and AdamW against one process."""
    case = {label: _case(k) for k, label in enumerate(LABELS)}
    plan = [
        (1, [case[MICRO], case[PLAIN]]),
        (3, [case[MICRO], case[PLAIN], case[SGD], case[ADAMW]]),
        (4, [case[MICRO], case[ADAMW]]),
    ]
    rounds = examine(functools.partial(on_rank, plain_group, student), plan, explain)
    facts = next(Facts.of(r.ranks[0].values) for r in rounds if r.n == 4 and r.case.label == MICRO)
    k = len(PAINT)
    return Passed(
        (
            (f"all-reduces a step, where the slow step has {2 * k}", int(facts.calls), 2, ""),
            (f"bytes in them, where it has {k * (GRADIENTS + NUMBER)}", int(facts.payload),
             GRADIENTS + NUMBER, "bytes"),
            (f"numbers read in the step, where it reads {k}", int(facts.reads), 0, ""),
        ),
        "The weights are those of one process, under SGD with momentum and under AdamW.",
    )  # fmt: skip


def _case(kind: int) -> Case:
    return Case(
        LABELS[kind],
        make=lambda rank, n: torch.tensor([float(kind)]),
        want=lambda rank, n: want(kind, n),
        judge=lambda result, rank, n: _judge(kind, result, n),
    )


def _judge(kind: int, result: torch.Tensor, n: int) -> bool:
    facts, right = Facts.of(result.tolist()), want(kind, n).tolist()
    painted = LABELS[kind] in (MICRO, PLAIN)
    # the losses of all micro-batches may travel in one message, and from all ranks to all
    most = GRADIENTS + NUMBER * COUNTS[LABELS[kind]] * n
    cheap = facts.calls <= 2 and facts.payload <= most if painted else True
    modest = facts.held <= 1 and facts.steps == 1
    silent = facts.reads == 0 and facts.is_tensor == 1
    return cheap and modest and silent and _same(facts.numbers, right)


def _same(found: list[float], right: list[float]) -> bool:
    return len(found) == len(right) and all(map(_near, found, right))


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(1.0, abs(b))


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by the weights, then by the messages, the reads and the loss."""
    if round_.failures or any(s.kind != "tensor" or len(s.values) < 8 for s in round_.ranks):
        return None
    facts = [Facts.of(s.values) for s in round_.ranks]
    f, label = facts[0], round_.label
    told: dict[str, Any] = {"n": round_.n, "k": COUNTS[round_.case.label]}
    if f.steps != 1:
        return Wrong("no_step" if not f.steps else "steps", label, steps=int(f.steps), **told)
    if f.held > 1:
        return Wrong("all_at_once", label, held=f"{f.held:g}", **told)
    right = round_.ranks[0].want
    wrong = [r for r, g in enumerate(facts) if not _same(g.numbers[1:], right[1:])]
    painted = round_.case.label in (MICRO, PLAIN)
    if wrong and painted:
        return _gradient(facts, round_, told)
    if wrong:
        return Wrong("drift", label, optimizer=round_.case.label.split(",")[0], **told)
    return _cost(f, painted, label, told) or _loss(facts, right[0], label, told)


def _gradient(facts: list[Facts], round_: Round, told: dict[str, Any]) -> Wrong:
    """From the weights after two painted steps: 1 - g and 1 - g - g'."""
    n, label = round_.n, round_.label
    mean = sum(10.0**r for r in range(n)) / n
    paint = PAINT if round_.case.label == MICRO else (7.0,)
    first = [1.0 - f.numbers[1] for f in facts]
    second = [f.numbers[1] - f.numbers[1 + PAINTED] for f in facts]
    told |= {"got": number(first[0]), "want": number(7 * mean), "all": _listed(first)}
    own = [7.0 * 10**r for r in range(n)]
    if n > 1 and all(map(_near, first, own)):
        return Wrong("never_met", label, **told)
    if len({round(value, 6) for value in first}) > 1:
        return Wrong("part_met", label, **told)
    got = first[0]
    if _near(got, 7 * mean):
        twice = _near(second[0], 14 * mean)
        told["got"] = number(second[0])
        return Wrong("old_gradients" if twice else "gradient", label, **told)
    known = {
        "not_divided": sum(paint) * mean,
        "newest": paint[-1] / len(paint) * mean,
        "newest_whole": paint[-1] * mean,
        "divided_twice": 7 * mean / len(paint),
        "by_ranks": 7 * mean / n,
        "sum_of_ranks": 7 * mean * n,
    }
    key = next((key for key, value in known.items() if _near(got, value)), "gradient")
    return Wrong("newest" if key == "newest_whole" else key, label, **told)


def _cost(f: Facts, painted: bool, label: str, told: dict[str, Any]) -> Wrong | None:
    k = told["k"]
    if painted:
        told = told | {"calls": int(f.calls), "payload": int(f.payload), "once": GRADIENTS}
        if f.payload >= k * GRADIENTS and f.calls > 2 and k > 1:
            return Wrong("forward_outside" if f.entered else "every_micro_batch", label, **told)
        if f.calls > 2:
            several = f.payload > GRADIENTS + NUMBER
            return Wrong("loss_messages" if several else "one_by_one", label, **told)
    if f.reads:
        many = f.reads > 1 and k > 1
        return Wrong("reads" if many else "read_once", label, reads=int(f.reads), **told)
    return None if f.is_tensor else Wrong("not_a_tensor", label, **told)


def _loss(facts: list[Facts], right: float, label: str, told: dict[str, Any]) -> Wrong | None:
    """The weights are right and cheap; so it is the loss that is not."""
    n, k = told["n"], told["k"]
    got = [f.numbers[0] for f in facts]
    told = told | {"got": number(got[0]), "want": number(right), "all": _listed(got)}
    if n > 1 and len({round(value, 9) for value in got}) > 1:
        return Wrong("own_loss", label, **told)
    known = {"loss_sum": right * n, "loss_not_divided": right * k, "loss_twice": right / k,
             "loss_by_ranks": right / n}  # fmt: skip
    key = next((key for key, value in known.items() if _near(got[0], value)), "loss")
    return Wrong(key, label, **told)


def _listed(values: list[float]) -> str:
    return ", ".join(map(number, values))
