"""Data parallel in its simplest form: the same start, then every gradient averaged by itself.

Each rank computes the gradient of its own part of the global batch. The mean over ranks is the
gradient of the whole batch if every rank's loss is the mean over the same number of samples. Ranks
that start from the same weights and step with the same gradients stay the same.

S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13
(2020) 3005-3018, section 2.2 and 3.2.1.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput


def same_start(model: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Copy the parameters and buffers of a group's first rank to all of its ranks, in place."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            # A broadcast needs contiguous memory, which a weight in channels_last is not.
            whole = tensor.contiguous()
            dist.broadcast(whole, group_src=0, group=group)
            tensor.copy_(whole)


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that get gradients, in the order in which they were registered."""
    return [p for p in model.parameters() if p.requires_grad]


def gradients_of(params: Iterable[nn.Parameter]) -> list[torch.Tensor]:
    """Return the gradients; a rank that did not use a parameter contributes a gradient of 0.

    Every rank must join every all-reduce. A parameter that no rank used also ends with a gradient
    of 0, where a single process would have None: momentum and weight decay then still move it, so
    freeze it with `requires_grad_(False)`.

    Raises
    ------
    BadInput
        When a gradient is sparse: ranks hold different rows of it, which no all-reduce can add.
    """
    gradients = []
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        elif p.grad.layout != torch.strided:
            raise BadInput(
                f"rank {dist.get_rank()}: a parameter of shape {tuple(p.shape)} has a sparse "
                "gradient, which an all-reduce cannot sum: create its layer with sparse=False."
            )
        gradients.append(p.grad)
    return gradients


def average_gradients(model: nn.Module) -> None:
    """Replace every gradient by its mean over all ranks: one all-reduce per parameter.

    Call it after the last micro-batch's `backward()` and before the optimizer's step.
    """
    for gradient in gradients_of(trainable(model)):
        whole = gradient.contiguous()  # itself, unless it has the strides of channels_last
        dist.all_reduce(whole)
        gradient.copy_(whole.div_(dist.get_world_size()))
