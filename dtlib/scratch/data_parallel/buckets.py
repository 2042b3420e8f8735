"""Data parallel with buckets: a few messages of several megabytes each.

A flat buffer is full only when backward has ended. If it is cut into buckets in the order in which
gradients arrive, roughly the reverse of the order in which parameters were registered, the first
bucket is full while most of backward is still to come; `overlap.py` makes use of that.

S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13
(2020) 3005-3018, sections 3.2.3 and 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput
from dtlib.scratch.data_parallel.flat import pack, unpack
from dtlib.scratch.data_parallel.naive import gradients_of, trainable

P = TypeVar("P", bound=nn.Parameter)

CAP_BYTES = 25 * 2**20  # 25 MiB, as torch's bucket_cap_mb


def assign_buckets(params: Sequence[P], cap_bytes: int = CAP_BYTES) -> list[list[P]]:
    """Put parameters into buckets of at most `cap_bytes` of gradients, last parameter first.

    Parameters
    ----------
    params
        In the order in which they were registered. A gradient is as large as its parameter.
    cap_bytes
        At least 1. A parameter that is larger gets a bucket of its own.

    Returns
    -------
    list of list
        Every parameter in exactly one bucket; each bucket has one dtype and device.

    Raises
    ------
    BadInput
        When `cap_bytes` is below 1.
    """
    if cap_bytes < 1:
        raise BadInput(f"cap_bytes must be at least 1, not {cap_bytes}; 25 MiB is usual.")
    buckets: list[list[P]] = []
    room: dict[tuple, int] = {}  # bytes left in the open bucket of a dtype and device
    opened: dict[tuple, list[P]] = {}
    for p in reversed(params):
        kind, size = (p.dtype, p.device), p.numel() * p.element_size()
        if kind not in opened or size > room[kind]:
            opened[kind], room[kind] = [], cap_bytes
            buckets.append(opened[kind])
        opened[kind].append(p)
        room[kind] -= size
    return buckets


def bucket_all_reduce(model: nn.Module, cap_bytes: int = CAP_BYTES) -> None:
    """Replace every gradient by its mean over all ranks: one all-reduce per bucket.

    Call it after the last micro-batch's `backward()` and before the optimizer's step.
    """
    for bucket in assign_buckets(trainable(model), cap_bytes):
        gradients = gradients_of(bucket)
        flat = pack(gradients)
        dist.all_reduce(flat)
        unpack(flat.div_(dist.get_world_size()), gradients)
