"""Data parallel through torch's DistributedDataParallel.

Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from dtlib.errors import BadInput
from dtlib.strategies.base import Strategy

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.config.plan import BatchPlan

# torch 2.14 renamed the argument and warns about the old name, which is the only one up to 2.13
SYNC_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in inspect.signature(DistributedDataParallel).parameters
)


class DDP(Strategy):
    """The whole model on every rank; gradients are averaged in buckets while backward runs.

    Each rank has its own buffers (running statistics of BatchNorm) in training; evaluation and
    checkpoints use the ranks' mean. Broadcasting them before every forward would change no loss.

    Without `deterministic`, DDP rebuilds its buckets after the first step, so with three or more
    ranks a resumed run sums its first step in another order and may differ in the last bits. With
    `deterministic` the layout stays the same, because `find_unused_parameters` forbids the rebuild.
    """

    options: ClassVar[tuple[str, ...]] = ("bucket_cap_mb", "compress_gradients", "static_graph")

    @classmethod
    def check_plan(cls, config: RunConfig, plan: BatchPlan) -> None:
        """Refuse a static graph with settings that its reducer cannot follow.

        Raises `BadInput` with `deterministic`, which forbids the new bucket layout of the second
        step, and with accumulation, because the first backward must communicate to learn the
        graph.
        """
        if not config.static_graph:
            return
        if config.deterministic:
            said = "static_graph rebuilds the buckets after step 1; drop it or deterministic."
            raise BadInput(said)
        if plan.accumulation > 1:
            raise BadInput(
                "static_graph learns the graph in the first backward, which must communicate, but"
                f" with accumulation {plan.accumulation} it does not; drop one of them."
            )

    def wrap(self, model: torch.nn.Module) -> torch.nn.Module:
        if self.world.world_size == 1:
            return model
        no_sync_of_buffers: dict[str, Any] = {SYNC_BUFFERS: False}
        devices = [self.world.device] if self.world.device.type == "cuda" else None
        settings = no_sync_of_buffers | reducer_settings(self.config)
        wrapped = DistributedDataParallel(model, device_ids=devices, **settings)
        if self.config.compress_gradients == "bf16":
            wrapped.register_comm_hook(torch.distributed.group.WORLD, bf16_compress_hook)
        return wrapped

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        if last or not isinstance(self.model, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.model.no_sync()

    def averaged_over(self) -> int:
        return self.world.world_size


def reducer_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings of DDP's reducer, for all strategies that wrap a model in DDP."""
    settings: dict[str, Any] = {
        "find_unused_parameters": config.deterministic,  # which keeps the first bucket layout
        "gradient_as_bucket_view": True,
        "static_graph": config.static_graph,
    }
    if config.bucket_cap_mb is not None:
        settings["bucket_cap_mb"] = config.bucket_cap_mb
    return settings


STRATEGIES = {"ddp": DDP, "dp": DDP}
