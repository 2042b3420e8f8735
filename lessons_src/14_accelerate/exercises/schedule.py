"""Exercise 14.1: a schedule that ends when training does, though every rank steps it.

No ranks are needed: what Accelerate does to a prepared scheduler, N steps of it for each step of
the optimizer, is done here by a loop.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

RATE = 0.5  # not 1, so that a factor taken for a rate shows
STEPS = 6
AFTER = 3  # steps of the optimizer beyond the end, which must not be taken uphill


def reference(
    optimizer: torch.optim.Optimizer, steps: int, num_processes: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """A line from 1 to 0 over all the steps that the ranks take together."""
    total = steps * num_processes
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: max(0.0, 1 - k / total))


def check(student: Callable[..., Any]) -> Passed:
    """Step the student's schedule as 1, 3 and 4 processes do, and read the rate at every step."""
    for n in (1, 3, 4):
        case = f"{STEPS} steps on {n} process{'es' * (n > 1)}, lr = {RATE}"
        seen = rates(student, n, case)
        _judge(seen, n, case)
    return Passed(
        (("lr of the last step on 4 processes", number(seen[STEPS - 1]), number(RATE / STEPS), ""),)
    )


def rates(student: Callable[..., Any], n: int, case: str) -> list[float]:
    """The learning rate of each optimizer step when `n` processes step the scheduler each time."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=RATE)
    scheduler = ask(student, optimizer, STEPS, n, case=case)
    if scheduler is None:
        raise Wrong("none", case)
    if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        raise Wrong("no_scheduler", case, got=type(scheduler).__name__)
    seen: list[float] = []

    def stepped() -> None:
        for _ in range(STEPS + AFTER):
            seen.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            for _ in range(n):
                scheduler.step()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a step that no optimizer step preceded
        ask(stepped, case=case)  # a schedule's own function runs here
    return seen


def _judge(seen: list[float], n: int, case: str) -> None:
    want = [RATE * max(0.0, 1 - k / STEPS) for k in range(STEPS + AFTER)]
    if all(map(_near, seen, want)):
        return
    facts = {"n": n, "steps": STEPS, "rate": RATE, "last": number(seen[STEPS - 1])}
    facts |= {"first": number(seen[0]), "seen": ", ".join(map(number, seen[:STEPS]))}
    facts |= {"want": number(want[STEPS - 1])}
    squared = [RATE * value for value in want[:STEPS]]
    if all(map(_near, seen[:STEPS], squared)):
        raise Wrong("squared", case, **facts)
    if all(map(_near, seen[:STEPS], want)):
        beyond = next(v for v, w in zip(seen[STEPS:], want[STEPS:], strict=True) if not _near(v, w))
        raise Wrong("beyond", case, beyond=number(beyond), **facts)
    if n > 1 and _ends_at(seen, STEPS / n):
        raise Wrong("ends_early", case, at=math.ceil(STEPS / n), **facts)
    if _ends_at(seen, STEPS - 1):
        raise Wrong("one_short", case, **facts)
    if n > 1 and _ends_at(seen, STEPS * n):
        raise Wrong("too_slow", case, **facts)
    if len(set(map(number, seen))) == 1:
        raise Wrong("constant", case, **facts)
    raise Wrong("other_line", case, **facts)


def _ends_at(seen: list[float], end: float) -> bool:
    """Whether the rates fall along a line that is 0 after `end` steps of the optimizer."""
    line = [RATE * (1 - k / end) for k in range(STEPS) if k <= end]
    return all(map(_near, seen[: len(line)], line))


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
