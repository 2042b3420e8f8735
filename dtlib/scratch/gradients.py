"""The sum of gradients over the ranks of a group, in one message.

A rank that computes with some tokens of a batch gets their part of a weight's gradient. If every
rank divides its loss by the tokens of all ranks, the gradient of the batch is the sum of the parts.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch.distributed as dist
from torch import nn

from dtlib.scratch.data_parallel import pack, unpack
from dtlib.scratch.data_parallel.naive import gradients_of
from dtlib.scratch.tensor_parallel.parameters import Group


def sum_gradients(params: Iterable[nn.Parameter], group: Group = None) -> None:
    """Replace every gradient by its sum over the ranks of the group, in one message.

    Call it once per step, after the last backward and before clipping.

    Parameters
    ----------
    params
        The same on all ranks, in the same order; frozen ones are left out.
    group
        The ranks; None is all of them.

    Raises
    ------
    BadInput
        When a gradient is sparse.
    """
    gradients = gradients_of(p for p in params if p.requires_grad)
    total = pack(gradients)
    dist.all_reduce(total, group=group)
    unpack(total, gradients)
