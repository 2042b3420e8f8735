"""The norm of a gradient whose parts are cut and whose rest is on every rank: count each once.

The squares of cut parameters are added up over the ranks. Those of whole parameters are already
complete on each rank: a sum over the ranks would count them N times. The squares of orthogonal
parts add up to the square of the norm, so a single number per rank is sent.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dtlib.scratch.tensor_parallel.parameters import Cut, Group
from dtlib.scratch.zero.clip import clip_factor


def global_norm(model: nn.Module, group: Group = None) -> Tensor:
    """The 2-norm of the gradient of the whole model, the same on all ranks.

    Call it after `sum_partial`. A model has at least one parameter with a gradient on each rank.
    """
    trained = [p for p in model.parameters() if p.grad is not None]
    device = trained[0].device
    squares = {True: torch.zeros(1, dtype=torch.float64, device=device)}
    squares[False] = squares[True].clone()
    for p in trained:
        squares[isinstance(p, Cut)] += torch.linalg.vector_norm(p.grad, dtype=torch.float64) ** 2
    dist.all_reduce(squares[True], group=group)
    return (squares[True] + squares[False]).sqrt().squeeze()


def clip_global_norm(model: nn.Module, largest: float, group: Group = None) -> Tensor:
    """Scale all gradients down, in place, to a norm of at most `largest`; return the norm before.

    As `torch.nn.utils.clip_grad_norm_` does for a model that is whole.
    """
    norm = global_norm(model, group)
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(clip_factor(norm, largest).to(p.grad.dtype))
    return norm
