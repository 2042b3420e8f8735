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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dtlib.errors import BadInput
from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.scratch.tensor_parallel.parameters import Partial

POSITIONS = 1  # activations are [b, s, h]


def all_reduce(x: Tensor) -> Tensor:
    """The sum of `x` over all ranks, in memory of its own: autograd may still need `x`."""
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


def all_gather(x: Tensor) -> Tensor:
    """The positions of all ranks, [b, s/N, h] to [b, s, h]."""
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts, dim=POSITIONS)


def reduce_scatter(x: Tensor) -> Tensor:
    """This rank's positions of the sum of `x` over all ranks, [b, s, h] to [b, s/N, h]."""
    n = dist.get_world_size()
    if x.shape[POSITIONS] % n:
        raise BadInput(
            f"rank {dist.get_rank()}: {x.shape[POSITIONS]} positions cannot be divided equally "
            f"among {n} ranks: take a sequence length that is a multiple of {n}."
        )
    parts = torch.stack(x.chunk(n, dim=POSITIONS))  # [N, b, s/N, h]: what each rank will get
    return reduce_scatter_sum(torch.empty_like(parts[0]), parts.flatten(0, 1))


class _F(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return all_reduce(gradient)


class _G(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return all_reduce(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


class _FSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return all_gather(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return reduce_scatter(gradient)


class _GSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return reduce_scatter(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return all_gather(gradient)


f: Callable[[Tensor], Tensor] = _F.apply
g: Callable[[Tensor], Tensor] = _G.apply
f_sequence: Callable[[Tensor], Tensor] = _FSequence.apply
g_sequence: Callable[[Tensor], Tensor] = _GSequence.apply


@dataclass(frozen=True)
class Edges:
    """What stands at the two edges of a tensor-parallel region.

    Attributes
    ----------
    enter, leave
        f and g, or their twins.
    shared
        What a parameter outside of the region is. With f and g every rank computes its whole
        gradient. With the twins a rank sees only its own positions, and its gradient is `Partial`.
    """

    enter: Callable[[Tensor], Tensor]
    leave: Callable[[Tensor], Tensor]
    shared: type[nn.Parameter]


TENSOR = Edges(f, g, nn.Parameter)
SEQUENCE = Edges(f_sequence, g_sequence, Partial)
