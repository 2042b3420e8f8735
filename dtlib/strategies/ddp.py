"""Data parallel through torch's DistributedDataParallel.

Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from dtlib.strategies.base import Strategy

# torch 2.14 renamed the argument and warns about the old name, which is the only one up to 2.13
SYNC_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in inspect.signature(DistributedDataParallel).parameters
)


class DDP(Strategy):
    """The whole model on every rank; gradients are averaged in buckets while backward runs.

    Buffers (running statistics of BatchNorm) are each rank's own in training and rank 0's in
    evaluation and checkpoints; broadcasting them before every forward would change no loss.

    Without `deterministic` DDP lays its buckets out anew after the first step, so from three ranks
    on a resumed run sums its first step in another order and may differ in the last bits. With it
    the layout stays as it is: `find_unused_parameters` forbids the rebuild.
    """

    options = ("bucket_cap_mb",)

    def wrap(self, model: torch.nn.Module) -> torch.nn.Module:
        if self.world.world_size == 1:
            return model
        no_sync_of_buffers: dict[str, Any] = {SYNC_BUFFERS: False}
        cuda = self.world.device.type == "cuda"
        return DistributedDataParallel(
            model,
            device_ids=[self.world.device] if cuda else None,
            bucket_cap_mb=self.config.bucket_cap_mb,
            **no_sync_of_buffers,
            find_unused_parameters=self.config.deterministic,
            gradient_as_bucket_view=True,
        )

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        if last or not isinstance(self.model, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.model.no_sync()

    def averaged_over(self) -> int:
        return self.world.world_size

    def share_buffers(self) -> None:
        if self.world.world_size > 1:
            for buffer in self.module.buffers():
                torch.distributed.broadcast(buffer, src=0)


STRATEGIES = {"ddp": DDP, "dp": DDP}
