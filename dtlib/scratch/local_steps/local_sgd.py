"""Local SGD: every rank trains alone for H steps, then all take the mean of their weights.

Data parallel averages gradients in every step. Here ranks send their weights, which are as many
numbers, in every H-th step only: 1/H of the bytes and of the messages. In between, the weights of
the ranks drift apart, each towards its own samples. With H = 1 and an optimizer without momentum it
is data parallel: the mean of θ - η·gᵣ over the ranks is θ - η·mean(g).

Momentum and other state of the optimizer stay with their rank. So do a batch norm's statistics.

S. U. Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, arXiv:1805.09767.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.scratch.data_parallel import average, same_start
from dtlib.scratch.data_parallel.naive import trainable
from dtlib.scratch.local_steps.rounds import Rounds


class LocalSGD:
    """Train with `loss.backward()`, `local.step()`, `optimizer.zero_grad()`.

    Parameters
    ----------
    model
        Equal in shape on all ranks; all start with the weights of the group's first rank.
    optimizer
        Any, over the model's parameters.
    every
        H, the steps of a round, which ends with the mean.
    group
        The ranks; None is all of them.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        every: int,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        same_start(model, group)
        self.params, self.optimizer, self.group = trainable(model), optimizer, group
        self.rounds = Rounds(every)

    @torch.no_grad()
    def step(self) -> None:
        """Let the optimizer take a step and, if it is the last one of a round, take the mean."""
        self.optimizer.step()
        if self.rounds.ends():
            average(self.params, self.group)

    def state_dict(self) -> dict[str, Any]:
        """Where in a round this is. Within a round each rank has weights of its own to save."""
        return {"steps": self.rounds.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self.rounds.steps = state["steps"]
