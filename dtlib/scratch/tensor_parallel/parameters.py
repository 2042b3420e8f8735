"""Three kinds of parameters: cut, whole, and whole with a gradient that still has to be added up.

A `Cut` is one rank's part of a weight: no other rank has its gradient. A plain `nn.Parameter` is
the same on all ranks, and so is its gradient, without any message, because all ranks compute it
from the same numbers. A `Partial` is the same on all ranks, too, but each rank used it for
something else (its own positions, its own heads), so that its gradient is the sum over the ranks.

Megatron-LM marks its parameters in the same way, as `tensor_model_parallel` and
`sequence_parallel`, and adds up the latter's gradients after backward.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dtlib.errors import BadInput

Group = dist.ProcessGroup | None  # None stands for all ranks


class Cut(nn.Parameter):
    """This rank's part of a parameter."""


class Partial(nn.Parameter):
    """A whole parameter, of whose gradient `backward` leaves one term on each rank."""


def own(whole: Tensor, dim: int, group: Group = None) -> Tensor:
    """This rank's part of a tensor, a view; the first parts are longer by one if N does not divide.

    The N ranks are those of `group`, by default all: so here and in everything below.

    Raises
    ------
    BadInput
        If there are fewer rows or columns than ranks.
    """
    n = dist.get_world_size(group)
    if whole.shape[dim] < n:
        raise BadInput(
            f"a dimension of {whole.shape[dim]} cannot be cut for {n} ranks: start at most "
            f"{whole.shape[dim]} ranks, or make it larger."
        )
    return whole.tensor_split(n, dim)[dist.get_rank(group)]


def first_of_own(size: int, group: Group = None) -> int:
    """Where this rank's part of `size` rows begins, as `own` cuts them."""
    rank = dist.get_rank(group)
    each, longer = divmod(size, dist.get_world_size(group))
    return rank * each + min(rank, longer)


def cut(whole: Tensor, dim: int, group: Group = None) -> Cut:
    """This rank's part as a parameter of its own, so that the whole can be freed."""
    return Cut(own(whole.detach(), dim, group).clone(memory_format=torch.contiguous_format))


def sum_partial(model: nn.Module, group: Group = None) -> None:
    """Add up the gradients of all `Partial` parameters over the ranks, in one message.

    Call it once per step, after the last backward and before clipping. Without `Partial` parameters
    it sends nothing.
    """
    params = [p for p in model.parameters() if isinstance(p, Partial)]
    if not params:
        return
    # A rank that did not use one has a term of 0: all messages need the same length.
    terms = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
    total = torch.cat([term.flatten() for term in terms])
    dist.all_reduce(total, group=group)
    for p, part in zip(params, total.split([p.numel() for p in params]), strict=True):
        p.grad = part.view(p.shape)
