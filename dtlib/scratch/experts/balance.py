"""The load-balancing loss: what keeps the router from sending every token to the same experts.

A router prefers whichever experts are a little better; they then see more tokens and get better
still. The loss is E · Σ f·P over the experts, where f is an expert's share of the choices and P its
mean probability. It is 1 if both are equal for all experts, and larger where experts with many
tokens also have high probabilities. f counts and has no gradient; through P the router makes
crowded experts less probable.

W. Fedus et al., "Switch Transformers", arXiv:2101.03961, equations 4 to 6.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dtlib.scratch.experts.router import Routing


def load_of(routing: Routing) -> Tensor:
    """How many of the T tokens have chosen each expert, before capacity: [E], int64."""
    return torch.bincount(routing.experts.flatten(), minlength=routing.probabilities.shape[-1])


def balance_loss(routing: Routing) -> Tensor:
    """The load-balancing loss of T tokens, 0-d: this rank's own, as GShard's is each group's.

    Add its mean over the ranks to the loss, times a small coefficient (Switch: 0.01).
    """
    load = load_of(routing)
    mean = routing.probabilities.mean(0)
    share = load.to(mean.dtype) / load.sum()
    return len(load) * (share * mean).sum()
