"""The patient of lesson 04: a program with loss scaling that trains badly, and its log.

After a mistake found in an example of PyTorch's own: https://github.com/pytorch/examples/issues/1196
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

from dtlib.scratch.loss_scaling import LossScaler

COLUMNS = ["loss scale", "length at the clip", "length of the step / lr", "skipped", "last loss"]
STEPS, RATE, MAX_NORM = 40, 0.1, 1.0


def step(scaler, weights, optimizer, loss, max_norm):
    """One step, as she wrote it."""
    scaler.scale(loss).backward()
    norm = clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


def run(scale: float, one_step: Callable[..., Any] = step) -> list[float]:
    """Fit a line with `one_step` at a loss scale, and return a row of `COLUMNS`.

    The two lengths are those of the first step; that of the step is in units of the rate.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=generator)
    y = x @ torch.tensor([1.0, -2.0, 3.0, -1.0])
    weights = [torch.nn.Parameter(torch.zeros(4))]
    optimizer = torch.optim.SGD(weights, lr=RATE)
    scaler = LossScaler(float(scale))
    first: list[float] = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (x @ weights[0] - y).square().mean()
        before = weights[0].detach().clone()
        norm = one_step(scaler, weights, optimizer, loss, MAX_NORM)
        moved = (weights[0].detach() - before).norm().item() / RATE
        first = first or [float(norm), moved]
    return [scale, *first, scaler.skipped, loss.item()]
