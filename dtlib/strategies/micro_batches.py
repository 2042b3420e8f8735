"""The micro-batches of a step, one after another, as nearly every strategy takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch

from dtlib.measure.profiling import mark

if TYPE_CHECKING:
    from dtlib.strategies.base import Strategy

Batch = tuple[torch.Tensor, torch.Tensor]
Score = Callable[[torch.Tensor], torch.Tensor]


class Losses(Protocol):
    """What a strategy needs from a task to differentiate its loss."""

    def loss_sum(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the summed loss (0-d) of a micro-batch's logits."""

    def training_loss(
        self, model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """Return the summed loss (0-d) of the model on a micro-batch."""


def one_after_another(
    strategy: Strategy, task: Losses, micro_batches: Sequence[Batch], count: torch.Tensor
) -> torch.Tensor:
    """Add each micro-batch's share to the gradient, and return this rank's summed loss (0-d)."""
    loss = torch.zeros_like(count)
    for number, (inputs, labels) in enumerate(micro_batches, start=1):
        with strategy.micro_step(last=number == len(micro_batches)):
            with mark("forward"), strategy.autocast():
                loss_sum = strategy.loss(task, inputs, labels)
            with mark("backward"):
                strategy.backward(loss_sum, count)
        loss += loss_sum.detach()
    return loss
