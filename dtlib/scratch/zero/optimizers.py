"""AdamW and SGD with momentum on a shard: neither needs to know that it sees only a part.

Both work element by element, so N ranks that each update one Nth do what a single rank would do.
Only a norm over all elements, as clipping needs, takes communication (`step.py`).

I. Loshchilov and F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch

State = dict[str, torch.Tensor]


class Rule(Protocol):
    """An optimizer that works element by element: `AdamW` or `SGD`."""

    lr: float

    def state(self, shard: torch.Tensor) -> State: ...

    def update(
        self, theta: torch.Tensor, g: torch.Tensor, state: State, t: int, decayed: int
    ) -> None: ...


class AdamW:
    """Adam with decoupled weight decay: 8 bytes of fp32 state per element, m and v.

    Parameters
    ----------
    lr
        α·η, the learning rate; may be changed before every step.
    betas
        β1 and β2, how slowly the moments forget.
    eps
        ε, added to the root of v.
    weight_decay
        λ, for the elements that are decayed.
    """

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay

    def state(self, shard: torch.Tensor) -> State:
        """The moments of a shard before the first step."""
        return {"exp_avg": torch.zeros_like(shard), "exp_avg_sq": torch.zeros_like(shard)}

    def update(
        self, theta: torch.Tensor, g: torch.Tensor, state: State, t: int, decayed: int
    ) -> None:
        """Take step t, counted from 1, in place; the first `decayed` elements are decayed."""
        (beta1, beta2), m, v = self.betas, state["exp_avg"], state["exp_avg_sq"]
        theta[:decayed].mul_(1 - self.lr * self.weight_decay)
        m.lerp_(g, 1 - beta1)  # m ← β1 m + (1 - β1) g
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)  # v ← β2 v + (1 - β2) g²
        root = v.sqrt().div_(math.sqrt(1 - beta2**t)).add_(self.eps)
        theta.addcdiv_(m, root, value=-self.lr / (1 - beta1**t))


class SGD:
    """Gradient descent with momentum, as in torch: 4 bytes of fp32 state per element.

    Parameters
    ----------
    lr
        The learning rate; may be changed before every step.
    momentum
        The fraction of the last step's direction that is kept.
    weight_decay
        λ, added to the gradient of the elements that are decayed.
    """

    def __init__(self, lr: float, momentum: float = 0.9, weight_decay: float = 0.0) -> None:
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay

    def state(self, shard: torch.Tensor) -> State:
        """The momentum of a shard before the first step."""
        return {"momentum_buffer": torch.zeros_like(shard)}

    def update(
        self, theta: torch.Tensor, g: torch.Tensor, state: State, t: int, decayed: int
    ) -> None:
        """Take a step, in place; the first `decayed` elements are decayed."""
        g[:decayed].add_(theta[:decayed], alpha=self.weight_decay)
        theta.add_(state["momentum_buffer"].mul_(self.momentum).add_(g), alpha=-self.lr)
