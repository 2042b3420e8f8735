"""Data parallel with one message: all gradients packed into one flat buffer.

Every message costs a latency α in addition to its bytes, and most gradients are small. Packed into
one message, the same bytes pay α only once.

S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13
(2020) 3005-3018, section 3.2.2 and figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from dtlib.scratch.data_parallel.naive import gradients_of, trainable


def pack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Copy tensors of one dtype into one flat buffer, one after the other."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unpack(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy a flat buffer back into the tensors that it was packed from."""
    offset = 0
    for t in tensors:
        t.copy_(flat[offset : offset + t.numel()].view(t.shape))
        offset += t.numel()


def average(tensors: Sequence[torch.Tensor], group: dist.ProcessGroup | None = None) -> None:
    """Replace every tensor by its mean over the ranks of a group: one all-reduce per dtype."""
    for dtype in dict.fromkeys(t.dtype for t in tensors):  # a buffer has one dtype
        alike = [t for t in tensors if t.dtype == dtype]
        flat = pack(alike)
        dist.all_reduce(flat, group=group)
        unpack(flat.div_(dist.get_world_size(group)), alike)


def flat_all_reduce(model: nn.Module) -> None:
    """Replace every gradient by its mean over all ranks: one all-reduce per dtype.

    Call it after the last micro-batch's `backward()` and before the optimizer's step.
    """
    average(gradients_of(trainable(model)))
