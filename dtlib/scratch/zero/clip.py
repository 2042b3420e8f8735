"""The norm of a gradient of which every rank holds one Nth: a single number travels.

Lengths of parts at right angles do not add up, their squares do: two shards of norms 3 and 4 make a
gradient of norm 5. A rank that clipped by the norm of its own shard would scale it by a factor of
its own, and the parts would no longer fit together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dtlib.scratch.zero.wire import Wire


def wide(dtype: torch.dtype) -> torch.dtype:
    """float32 in place of the two 16-bit types: in what sums and updates are made."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def global_norm(shards: Sequence[torch.Tensor], wire: Wire) -> torch.Tensor:
    """Return √(Σ over ranks and shards of their squares), the same bits on all ranks."""
    norms = [torch.linalg.vector_norm(shard, dtype=wide(shard.dtype)) for shard in shards]
    return wire.all_reduce(torch.stack(norms).square_().sum()).sqrt_()


def clip_factor(norm: torch.Tensor, largest: float) -> torch.Tensor:
    """Return what to multiply a gradient by, as `torch.nn.utils.clip_grad_norm_` has it."""
    return torch.clamp(largest / (norm + 1e-6), max=1.0)
