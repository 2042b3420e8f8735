"""Exercise 14.3: a loss whose gradient is the mean, though Accelerate divides by a fixed number.

The model is one weight w, a sample x has the loss w·x, so its gradient is x. Ranks and
micro-batches are a loop here: Accelerate's `backward` divides by the accumulation, DDP by the
processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number


class Group(NamedTuple):
    """One optimizer step: for each rank its micro-batches; `full` is the accumulation set."""

    name: str
    full: int
    ranks: Sequence[Sequence[Sequence[float]]]


GROUPS = (
    Group("one process, one sample", 1, [[[3]]]),
    Group("3 processes, a full group of 2", 2,
          [[[1, 3], [5, 7]], [[5, 7], [2, 2]], [[9, 17], [8, 6]]]),
    Group("one process, the last 2 micro-batches where 4 make a group", 4, [[[1, 3], [5, 7]]]),
    Group("one process, the last micro-batch is short", 2, [[[1, 3, 5], [7]]]),
    Group("4 processes, 3 micro-batches where 4 make a group, unequal", 4,
          [[[1], [2, 4], [6]], [[3], [5], [7]], [[9, 9], [1], [1]], [[2], [8], [4, 4, 4]]]),
)  # fmt: skip


def reference(
    losses: torch.Tensor, samples: int, num_processes: int, accumulation: int
) -> torch.Tensor:
    """The sum over the step's samples, times what will be divided by afterwards."""
    return losses.sum() * num_processes * accumulation / samples


def check(student: Callable[..., Any]) -> Passed:
    """Compare the gradient that Accelerate would make of the student's loss with the mean."""
    for group in GROUPS:
        everyone = [x for rank in group.ranks for micro in rank for x in micro]
        want = sum(everyone) / len(everyone)
        got = _gradient(student, group, len(everyone))
        if not math.isclose(got, want, rel_tol=1e-5):
            raise _explain(group, got, want)
    return Passed((("gradient of the uneven tail on 4 processes", number(got), number(want), ""),))


def _gradient(student: Callable[..., Any], group: Group, samples: int) -> float:
    w = torch.ones((), requires_grad=True)
    n = len(group.ranks)
    for rank in group.ranks:
        for micro in rank:
            losses = w * torch.tensor(micro, dtype=torch.float32)
            loss = ask(student, losses, samples, n, group.full, case=group.name)
            _refuse(loss, group)
            ask((loss / group.full / n).backward, case=group.name)
    if w.grad is None:
        raise Wrong("detached", group.name, what="a tensor made without the losses")
    return float(w.grad)


def _refuse(loss: Any, group: Group) -> None:
    if loss is None:
        raise Wrong("none", group.name)
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        what = (
            "a tensor without one" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
        )
        raise Wrong("detached", group.name, what=what)
    if loss.numel() != 1:
        raise Wrong("vector", group.name, got=loss.numel())


def _explain(group: Group, got: float, want: float) -> Wrong:
    n, full, taken = len(group.ranks), group.full, len(group.ranks[0])
    micros = [micro for rank in group.ranks for micro in rank]
    total, count = sum(map(sum, micros)), sum(map(len, micros))
    means = [sum(micro) / len(micro) for micro in micros]
    facts: dict[str, Any] = {
        "got": number(got), "want": number(want), "n": n, "full": full, "taken": taken,
        "count": count, "times": number(got / want), "total": number(total),
    }  # fmt: skip
    candidates = {
        "no_accumulation": total / count / full,
        "no_processes": total / count / n,
        "neither": total / count / full / n,
        "tail": sum(means) / n / full if taken < full else math.nan,
        "sum": total / n / full,
        "own_count": sum(means),
        "not_yet": total,
    }
    for key, value in candidates.items():
        if value != want and math.isclose(got, value, rel_tol=1e-5):
            return Wrong(key, group.name, **facts)
    return Wrong("other", group.name, **facts)
