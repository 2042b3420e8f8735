"""Exercise 4.3: a step on fp32 master weights, of which the model holds a bf16 copy.

One long step tells which of the two tensors moved and how; a thousand short ones tell which of them
remembers; a last one, whether the copy is the nearest that bf16 has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

Step = Callable[..., Any]
COARSE = torch.tensor(0.001).bfloat16().item()  # the step of 0.001 as bf16 has it
NEAR = 2e-4  # fp32 rounds a thousand times, by at most 2^-24 each below 2: 6e-5 in all


@torch.no_grad()
def reference(low: torch.Tensor, master: torch.Tensor, gradient: torch.Tensor, lr: float) -> None:
    """Step in fp32, and round the result into the model's copy."""
    master.sub_(gradient.float() * lr)
    low.copy_(master)


def check(student: Step) -> Passed:
    """Take one long step, a thousand short ones, and one between two numbers of bf16."""
    _long_step(student)
    low, master = _walk(student, 1000)
    _short_steps(low, master)
    _rounds(student)
    return Passed(
        (
            ("master weight after 1000 steps of 0.001", round(master, 4), 2.0, ""),
            ("the model's copy of it", low, 2.0, ""),
        )
    )


def _tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.ones(2).bfloat16(), torch.ones(2), torch.tensor([-1.0, -2.0]).bfloat16()


def _long_step(student: Step) -> None:
    low, master, gradient = _tensors()
    case = "weights 1 and 1, gradients -1 and -2, lr 0.25"
    ask(student, low, master, gradient, 0.25, case=case)
    kinds = {"low": _kind(low), "master": _kind(master)}
    if low.dtype != torch.bfloat16:
        raise Wrong("low_kind", case, **kinds)
    if master.dtype != torch.float32:
        raise Wrong("master_kind", case, **kinds)
    got_low, got = low.float().tolist(), master.tolist()
    facts = {"low": _pair(got_low), "master": _pair(got)}
    if got == [0.75, 0.5]:
        raise Wrong("uphill", case, **facts)
    if got == [1, 1] and got_low == [1, 1]:
        raise Wrong("nothing_moved", case, **facts)
    if got == [1, 1] and got_low == [1.25, 1.5]:
        raise Wrong("master_still", case, **facts)
    if got == [1.25, 1.5] and got_low == [1, 1]:
        raise Wrong("low_stale", case, **facts)
    if got == got_low == [2, 3]:
        raise Wrong("no_rate", case, **facts)
    if got != [1.25, 1.5] or got_low != [1.25, 1.5]:
        raise Wrong("long_step", case, **facts)


def _walk(student: Step, steps: int) -> tuple[float, float]:
    low, master, _ = _tensors()
    gradient = -torch.ones(2).bfloat16()
    for _ in range(steps):
        ask(student, low, master, gradient, 0.001, case=f"{steps} steps of 0.001 from 1")
    return low[0].item(), master[0].item()


def _short_steps(low: float, master: float) -> None:
    case = "1000 steps of 0.001, from 1"
    facts = {"low": f"{low:.5g}", "master": f"{master:.5g}", "coarse": f"{COARSE:.8f}"}
    near = abs(master - 2) < NEAR
    if near and low == 1:
        raise Wrong("low_alone", case, **facts)
    if near and low == 2:
        return
    if low == 1 and master == 1:
        raise Wrong("through_low", case, **facts)
    if low == 1 and master < 1.002:
        raise Wrong("rebuilt", case, **facts)
    if abs(master - (1 + 1000 * COARSE)) < NEAR:
        raise Wrong("coarse_step", case, **facts)
    raise Wrong("short_steps", case, **facts)


def _rounds(student: Step) -> None:
    """1.006 is nearer to 1.0078 than to 1; 100000 is a number of bf16, and fp16 ends before it."""
    master = torch.tensor([1.0, 100_000.0])
    low, gradient = master.bfloat16(), torch.tensor([-1.0, 0.0]).bfloat16()
    case = "weights 1 and 100000, gradients -1 and 0, lr 0.006"
    ask(student, low, master, gradient, 0.006, case=case)
    want = master.bfloat16()
    if not torch.equal(low, want):
        facts = {"low": low.tolist(), "master": master.tolist(), "want": want.tolist()}
        raise Wrong("not_rounded", case, **{k: _pair(v) for k, v in facts.items()})


def _kind(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _pair(values: list[float]) -> str:
    return " and ".join(f"{v:g}" for v in values)
