"""A backward in two halves: the input's gradient now, the weights' gradients later.

For a linear layer y = x Wᵀ + b the two do not need each other: ∂x = ∂y W and ∂W = ∂yᵀ x. Only the
first is what the stage before waits for. Only `nn.Linear` is split, which has most of the weights
of a transformer. The weight gradients of all other layers stay in the first half: also those of
convolutions and embeddings, which may be large.

All tensors have the weights' dtype: autocast is refused.

P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.scratch.pipeline.stages import refuse_autocast

Jobs = list[Callable[[], None]]


def defer_weights(block: nn.Module, jobs: Jobs) -> None:
    """Let every linear layer of a block leave its weight gradient as a job, to be called later.

    Parameters
    ----------
    block
        Its `nn.Linear` layers are changed in place; their parameters stay what they are.
    jobs
        Backward appends to it. A job holds the layer's input and the gradient of its output.
    """
    for layer in block.modules():
        if isinstance(layer, nn.Linear):
            layer.forward = functools.partial(_forward, layer, jobs)  # type: ignore[method-assign]


def _forward(layer: nn.Linear, jobs: Jobs, x: torch.Tensor) -> torch.Tensor:
    refuse_autocast(x)
    return _Linear.apply(x, layer.weight, layer.bias, functools.partial(_later, layer, jobs))


def _later(layer: nn.Linear, jobs: Jobs, x: torch.Tensor, gradient: torch.Tensor) -> None:
    jobs.append(functools.partial(_add_gradients, layer, x, gradient))


@torch.no_grad()
def _add_gradients(layer: nn.Linear, x: torch.Tensor, gradient: torch.Tensor) -> None:
    """∂W = ∂yᵀ x and ∂b = the sum of ∂y, over all samples and positions."""
    x, gradient = x.flatten(0, -2), gradient.flatten(0, -2)
    _add(layer.weight, gradient.T @ x)
    if layer.bias is not None:
        _add(layer.bias, gradient.sum(0))


def _add(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    if parameter.requires_grad:
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


class _Linear(torch.autograd.Function):
    """A linear layer whose backward computes the gradient of its input, and hands on the rest."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, later: Any) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.later = later
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        ctx.later(x, gradient)
        return gradient @ weight if ctx.needs_input_grad[0] else None, None, None, None
