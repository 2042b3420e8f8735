"""A model's buffers, of which every rank keeps its own values in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.modules.batchnorm import _NormBase

from dtlib.strategies.precision import sums_dtype

if TYPE_CHECKING:
    from dtlib.ranks.dist import World


def alike_on_all_ranks(module: torch.nn.Module, world: World) -> None:
    """Give every rank the ranks' mean of running statistics, and rank 0's other buffers.

    Each rank collects batch norm's statistics from its own samples. Their mean equals what a single
    rank collects from all samples, except for the order in which it forgets them.
    """
    collected = running_statistics(module)
    if collected:
        flat = torch.cat([each.flatten() for each in collected])
        whole = flat.to(world.device, sums_dtype(world.device)) / world.world_size
        torch.distributed.all_reduce(whole)
        parts = whole.split([each.numel() for each in collected])
        for each, part in zip(collected, parts, strict=True):
            each.copy_(part.view_as(each))
    averaged = {id(each) for each in collected}
    for buffer in module.buffers():
        if id(buffer) not in averaged:
            torch.distributed.broadcast(buffer, src=0)


def running_statistics(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return the running means and variances of all normalisations in a module, not copies."""
    norms = (each for each in module.modules() if isinstance(each, _NormBase))
    found = [tensor for each in norms for tensor in (each.running_mean, each.running_var)]
    return [tensor for tensor in found if tensor is not None]
