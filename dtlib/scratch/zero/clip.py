"""The norm of a gradient of which every rank holds one Nth: only one number has to be sent.

The norms of orthogonal parts do not add up, but their squares do: two shards of norms 3 and 4 make
a gradient of norm 5. A rank that clipped by the norm of its own shard would scale it by a factor of
its own, and the shards would no longer fit together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dtlib.scratch.zero.wire import Wire


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype for sums and updates: float32 in place of the two 16-bit types."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def global_norm(shards: Sequence[torch.Tensor], wire: Wire) -> torch.Tensor:
    """Return √(Σ over ranks and shards of their squares), the same bits on all ranks."""
    norms = [torch.linalg.vector_norm(shard, dtype=wide(shard.dtype)) for shard in shards]
    return wire.all_reduce(torch.stack(norms).square_().sum()).sqrt_()


def clip_factor(norm: torch.Tensor, largest: float) -> torch.Tensor:
    """Return the factor for a gradient, as `torch.nn.utils.clip_grad_norm_` computes it."""
    return torch.clamp(largest / (norm + 1e-6), max=1.0)
