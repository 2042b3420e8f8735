"""Exercise 9.3: the loss whose gradient, averaged by DDP, is the mean over all ranks' samples.

The model is one weight w = 1, a sample x has the loss w·x, so its gradient is x, and a gradient
tells whose samples are in it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number
from dtlib.learn.probe import LIMIT

Lists = tuple[tuple[float, ...], ...]
PLAN: tuple[Lists, ...] = (
    ((4,),),
    ((4,), (1, 1, 1), (2, 3)),
    ((1, 3), (), (5, 7, 9, 11)),
    ((2, 4), (), (8,), (1, 2, 3, 4)),
)


class NoGraph(Exception):
    """What came back cannot be called `backward()` on; the text says what it is."""


def reference(losses: torch.Tensor) -> torch.Tensor:
    """The summed loss over the global count, times the ranks that DDP will divide by."""
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    return losses.sum() * dist.get_world_size() / count


def check(student: Callable[..., Any]) -> Passed:
    """Run the student's loss under DDP on 1, 3 and 4 ranks with unequal numbers of samples."""
    plan = [(n, [_case(lists) for lists in PLAN if len(lists) == n]) for n in (1, 3, 4)]
    rounds = examine(functools.partial(_on_rank, student), plan, explain)
    last = rounds[-1]
    got = last.ranks[0].values[0]
    return Passed(
        (("gradient on 4 ranks with 2, 0, 1 and 4 samples", number(got), _mean(PLAN[-1]), ""),)
    )


def _mean(lists: Lists) -> str:
    everyone = [v for own in lists for v in own]
    return number(sum(everyone) / len(everyone))


def _on_rank(student: Callable[..., Any], x: torch.Tensor) -> Any:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    group = plain_group()
    ddp = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    loss, everyone = None, torch.zeros(1)
    try:
        loss = student(ddp(x[:, None]).flatten())
        everyone += what_lacks(loss) is None
    finally:  # DDP meets in backward: nobody may go there alone
        dist.all_reduce(everyone, dist.ReduceOp.MIN, group=group)
    lacks = what_lacks(loss)
    if lacks is not None and loss is not None:
        raise NoGraph(lacks)
    if not everyone or loss is None:
        return None
    loss.backward()
    gradient = model.weight.grad
    assert gradient is not None
    # the mean of no losses is nan, and yet its gradient is 0
    return gradient.flatten() if loss.isfinite() else torch.tensor([math.nan])


def what_lacks(loss: Any) -> str | None:
    """Say what it is that `backward()` cannot be called on; None when it can."""
    if not isinstance(loss, torch.Tensor):
        return f"a {type(loss).__name__}"
    if not loss.requires_grad:
        return "a tensor without a graph"
    return None if loss.numel() == 1 else f"a tensor of {loss.numel()} numbers"


def plain_group() -> Any:
    """A group without the debug mode of checks, in which DDP of torch 2.14 crashes.

    It waits longer than a check may take, whose own clock then decides alone: the first DDP of a
    process loads much, each in its time.
    """
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.OFF)
    group = dist.new_group(timeout=timedelta(seconds=2 * LIMIT))
    dist.set_debug_level(level)
    return group


def _case(lists: Lists) -> Case:
    everyone = [v for own in lists for v in own]
    return Case(
        "samples " + ", ".join(str([*map(int, own)]) for own in lists),
        make=lambda rank, n: torch.tensor(lists[rank], dtype=torch.float32),
        want=lambda rank, n: torch.tensor(sum(everyone) / len(everyone)),
        tolerance=1e-5,
    )


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by the gradient that it leaves, the same on all ranks."""
    lists = [round_.case.make(rank, round_.n).tolist() for rank in range(round_.n)]
    if round_.failures:
        return _failed(round_, lists)
    values = [v for v in round_.first_values if v is not None]
    if len(values) < round_.n:
        return None
    empty = [rank for rank, own in enumerate(lists) if not own]
    if any(map(math.isnan, values)):
        return Wrong("nan", round_.label, rank=empty[0]) if empty else None
    got, n = values[0], round_.n
    total, count = sum(map(sum, lists)), sum(map(len, lists))
    means = [sum(own) / len(own) if own else 0.0 for own in lists]
    facts = {"got": number(got), "n": n, "total": number(total), "count": count}
    facts |= {"want": number(total / count)}
    candidates = {
        "mean_of_means": sum(means) / n,
        "divided_twice": total / count / n,
        "sum_of_all": total,
        "sum": total / n,
        "own_count": sum(means),
        "times_n_twice": total / count * n,
    }
    for key, value in candidates.items():
        if abs(got - value) <= 1e-4 * max(1.0, abs(value)):
            counts = ", ".join(str(len(own)) for own in lists)
            return Wrong(key, round_.label, counts=counts, **facts)
    return None


def _failed(round_: Round, lists: list[list[float]]) -> Wrong | None:
    own = [(rank, f) for rank, f in round_.failures if f.error == "NoGraph"]
    if own:
        rank, failure = own[0]
        if len(own) < round_.n and not lists[rank]:
            return Wrong("early", round_.label, rank=rank, what=failure.message)
        key = "vector" if "numbers" in failure.message else "detached"
        return Wrong(key, round_.label, rank=rank, what=failure.message)
    if any("backward through the graph a second time" in f.message for _, f in round_.failures):
        return Wrong("backward_inside", round_.label)
    return None
