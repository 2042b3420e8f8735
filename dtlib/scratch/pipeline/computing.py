"""What a rank computes in a step: the forward of a stage, and its backward in two halves.

Of a micro-batch a rank keeps the stage's input, what autograd saves, and of the output only its
edge in autograd's graph: the output itself is freed once it has arrived on the next rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dtlib.scratch.pipeline.split import Jobs

Key = tuple[int, int]  # micro-batch and stage


@dataclass
class Computations:
    """Those of one rank in one step, and the tensors that lie between them.

    Parameters
    ----------
    stages
        This rank's stages, by number.
    last
        The number of the model's last stage.
    jobs
        Where the stages' backward leaves its weight gradients (`defer_weights`).
    loss_sum
        As for `Pipeline`.
    x, targets
        The micro-batches.
    count
        What the loss is averaged over.

    Attributes
    ----------
    inputs
        Of stages that have not run yet.
    gradients
        Of stages' outputs.
    kept, later
        What the backward needs, and then the weight gradient.
    loss
        The part of the mean loss that has been computed so far.
    """

    stages: Mapping[int, nn.Module]
    last: int
    jobs: Jobs
    loss_sum: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    x: Sequence[torch.Tensor]
    targets: Sequence[torch.Tensor]
    count: int
    inputs: dict[Key, torch.Tensor] = field(default_factory=dict)
    gradients: dict[Key, torch.Tensor] = field(default_factory=dict)
    kept: dict[Key, tuple[torch.Tensor, GradientEdge | None]] = field(default_factory=dict)
    later: dict[Key, Jobs] = field(default_factory=dict)
    loss: float = 0.0

    def how_many_kept(self) -> int:
        """Return the number of forwards of which something is kept."""
        return len(self.kept) + len(self.later)

    def forward(self, m: int, s: int) -> None:
        """Compute the output of a stage, or the loss."""
        x = self.inputs.pop((m, s)).requires_grad_() if s > 0 else self.x[m]
        y = self.stages[s](x)
        if s == self.last:
            y = self.loss_sum(y, self.targets[m]) / self.count
            self.loss += y.item()
        else:
            self.inputs[m, s + 1] = y.detach()
        self.kept[m, s] = x, get_gradient_edge(y) if y.requires_grad else None

    def backward_input(self, m: int, s: int) -> None:
        """Compute the gradient of a stage's input, and of the weights that are not deferred."""
        x, edge = self.kept.pop((m, s))
        gradient = self.gradients.pop((m, s), None)  # the last stage's is the loss's own, 1
        if edge is not None:
            torch.autograd.backward(edge, gradient)
        self.later[m, s] = self.jobs[:]
        self.jobs.clear()
        if s > 0:
            assert x.grad is not None
            self.gradients[m, s - 1] = x.grad

    def backward_weight(self, m: int, s: int) -> None:
        """Compute the weight gradients that were deferred."""
        for job in self.later.pop((m, s)):
            job()
