"""f and g, the only places where a tensor-parallel layer talks, and their sequence-parallel twins.

Between f and g each rank computes a part of a layer. f hands every rank the whole input; the parts
of its gradient come back, and have to be added up. g adds up the terms of the output; its gradient
is the same for every term. So each is the other's mirror image:

| | forward | backward |
| --- | --- | --- |
| `f` | nothing | all-reduce |
| `g` | all-reduce | nothing |
| `f_sequence` | all-gather | reduce-scatter |
| `g_sequence` | reduce-scatter | all-gather |

The twins stand where a rank holds only its own positions outside of f and g. They send as much as f
and g, because an all-reduce is a reduce-scatter and an all-gather.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3, names f and g. V. Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198, section 4.2.2,
calls the second pair g and ḡ.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dtlib.errors import BadInput
from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.scratch.tensor_parallel.parameters import Group

POSITIONS = 1  # activations are [b, s, h]

# A tensor on `meta` has a shape and no numbers, and nothing is sent: a pipeline runs such tensors
# through its stages to know what it will receive.


def all_reduce(x: Tensor, group: Group = None) -> Tensor:
    """The sum of `x` over all ranks, in memory of its own: autograd may still need `x`."""
    total = x.clone(memory_format=torch.contiguous_format)
    if not total.is_meta:
        dist.all_reduce(total, group=group)
    return total


def all_gather(x: Tensor, group: Group = None) -> Tensor:
    """The positions of all ranks, [b, s/N, h] to [b, s, h]."""
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    if not x.is_meta:
        dist.all_gather(parts, x, group=group)
    return torch.cat(parts, dim=POSITIONS)


def reduce_scatter(x: Tensor, group: Group = None) -> Tensor:
    """This rank's positions of the sum of `x` over all ranks, [b, s, h] to [b, s/N, h]."""
    n = dist.get_world_size(group)
    if x.shape[POSITIONS] % n:
        raise BadInput(
            f"rank {dist.get_rank()}: {x.shape[POSITIONS]} positions cannot be divided equally "
            f"among {n} ranks: take a sequence length that is a multiple of {n}."
        )
    parts = torch.stack(x.chunk(n, dim=POSITIONS))  # [N, b, s/N, h]: what each rank will get
    mine = torch.empty_like(parts[0])
    return mine if x.is_meta else reduce_scatter_sum(mine, parts.flatten(0, 1), group)


class _F(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return all_reduce(gradient, ctx.group), None


class _G(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return all_reduce(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient, None


class _FSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return all_gather(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return reduce_scatter(gradient, ctx.group), None


class _GSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return reduce_scatter(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return all_gather(gradient, ctx.group), None


def f(x: Tensor, group: Group = None) -> Tensor:
    """The same on all ranks of `group` (by default all there are); sums gradients in backward."""
    return _applied(_F, x, group)


def g(x: Tensor, group: Group = None) -> Tensor:
    """The sum over the ranks of `group`."""
    return _applied(_G, x, group)


def f_sequence(x: Tensor, group: Group = None) -> Tensor:
    """The positions of all ranks of `group`: [b, s/N, h] to [b, s, h]."""
    return _applied(_FSequence, x, group)


def g_sequence(x: Tensor, group: Group = None) -> Tensor:
    """This rank's positions of the sum over `group`: [b, s, h] to [b, s/N, h]."""
    return _applied(_GSequence, x, group)


def _applied(operator: type[torch.autograd.Function], x: Tensor, group: Group) -> Tensor:
    y: Tensor = operator.apply(x, group)
    return y
