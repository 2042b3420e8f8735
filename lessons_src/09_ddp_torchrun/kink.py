"""Why a rounding error grows: a kink in the activation turns a nudge into a jump.

The derivative of a ReLU is 1 above zero and 0 below. Where a nudge of the weights moves one of its
inputs across zero, the gradient gains or loses that unit's whole part, however small the nudge is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

SEEDS = 3


def small_network(activation: Callable[[], nn.Module]) -> nn.Sequential:
    """Build three convolutions with group norm and a head, for 32×32 pictures, in fp64."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 8), (8, 16), (16, 32)):
        layers.append(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1))
        layers += [nn.GroupNorm(outputs // 8, outputs), activation()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10)).double()


def gradient_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of the mean cross-entropy as one vector."""
    loss = F.cross_entropy(model(x), y)
    return parameters_to_vector(torch.autograd.grad(loss, list(model.parameters())))


def amplification(activation: Callable[[], nn.Module], nudge: float, x: Tensor, y: Tensor) -> float:
    """Return how many times larger the gradient's relative change is than that of the weights.

    Parameters
    ----------
    activation
        `torch.nn.ReLU`, which has a kink, or for instance `torch.nn.GELU`, which has none.
    nudge
        ε: each weight is multiplied by 1 + ε·z, with z from a normal distribution.
    x, y
        Pictures, fp64 [b, 3, 32, 32], and labels, int64 [b].

    Returns
    -------
    float
        The largest of three draws of z.
    """
    model = small_network(activation)
    before, changes = gradient_of(model, x, y), []
    weights = parameters_to_vector(model.parameters()).detach()
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        vector_to_parameters(weights * (1 + nudge * torch.randn_like(weights)), model.parameters())
        change = (gradient_of(model, x, y) - before).norm() / before.norm()
        changes.append(change.item() / nudge)
    return max(changes)
