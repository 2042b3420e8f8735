"""All-to-all that autograd knows: every rank has a part for every rank.

Part j of rank i becomes part i of rank j, as a transpose does with the rows and columns of a
matrix. Transposed twice, everything is where it was: so the gradients go back by the same call.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dtlib.scratch.tensor_parallel.parameters import Group


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, group: Group) -> Tensor:
        ctx.group = group
        parts = parts.contiguous()
        arrived = torch.empty_like(parts)
        if not parts.is_meta:  # which has a shape and no numbers
            dist.all_to_all_single(arrived, parts, group=group)
        return arrived

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return all_to_all(gradient, ctx.group), None


def all_to_all(parts: Tensor, group: Group = None) -> Tensor:
    """Send part j to rank j of the group; return [N, …], whose part i has come from rank i.

    Parameters
    ----------
    parts
        [N, …] of the same shape on all ranks.
    group
        The N ranks; None is all of them.
    """
    arrived: Tensor = _AllToAll.apply(parts, group)
    return arrived
