"""The optimizer, and the learning rate of each of its steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from dtlib.config import RunConfig

BETAS = (0.9, 0.95)
"""Decay of AdamW's two moments, as for GPT-3 (Brown et al. 2020)."""


def make_optimizer(config: RunConfig, model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return SGD with momentum, or AdamW (Loshchilov & Hutter 2019), for a model in place.

    Matrices and kernels are decayed; biases and the gains of norms are not. Parameters on another
    mesh are in a group of their own, because one kernel takes those of one mesh.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    assert config.lr is not None  # a resolved configuration has one
    decayed = [p for p in parameters if p.dim() >= 2], config.weight_decay
    others = [p for p in parameters if p.dim() < 2], 0.0
    groups: list[dict[str, Any]] = [
        {"params": each, "weight_decay": decay}
        for some, decay in (decayed, others)
        for each in by_mesh(some)
    ]
    # fused: a step of AdamW for nano takes 0.9 ms on a CPU; foreach takes 3.1 and a loop 3.4
    if config.optimizer == "sgd":
        sharded = any(
            hasattr(p, "to_local") for p in parameters
        )  # fused SGD does not support DTensor
        momentum, fused = config.momentum, not sharded
        return torch.optim.SGD(groups, lr=config.lr, momentum=momentum, fused=fused)
    return torch.optim.AdamW(groups, lr=config.lr, betas=BETAS, eps=config.adam_eps, fused=True)


def by_mesh(parameters: Iterable[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Return the parameters of each mesh of DTensors; without DTensors they are one list."""
    found: dict[Any, list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        found.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return [*found.values()] or [[]]


def learning_rate(config: RunConfig, optimizer_step: int, total_steps: int) -> float:
    """Return the learning rate of the optimizer step with that index, counted from 0.

    A linear warm-up that reaches `lr` after `warmup_steps`, then half a cosine that ends at
    `lr · lr_floor` in the last step (Loshchilov & Hutter 2017), or a constant.
    """
    assert config.lr is not None
    if optimizer_step < config.warmup_steps:
        return config.lr * (optimizer_step + 1) / (config.warmup_steps + 1)
    if config.schedule == "constant":
        return config.lr
    span = max(1, total_steps - 1 - config.warmup_steps)
    progress = min(1.0, (optimizer_step - config.warmup_steps) / span)
    cosine = (1 + math.cos(math.pi * progress)) / 2
    return config.lr * (config.lr_floor + (1 - config.lr_floor) * cosine)
