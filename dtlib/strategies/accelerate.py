"""Data parallel through Hugging Face Accelerate, in the world that is there."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import torch

from dtlib.strategies.base import MakeOptimizer
from dtlib.strategies.ddp import DDP, reducer_settings
from dtlib.strategies.needs import need_package, refuse_mps, unchanged_process
from dtlib.strategies.precision import weights_dtype

if TYPE_CHECKING:
    from accelerate import Accelerator

    from dtlib.config import RunConfig


class Accelerate(DDP):
    """What `Accelerator` makes of a model on several ranks, which is torch's DDP.

    Three of its helpers stay off, since the loop owns what they own: mixed precision (the autocast
    is the base's), division by the accumulation steps (`backward` has the true count), and prepared
    schedulers, which step once for each rank.
    """

    options = ("bucket_cap_mb", "static_graph")

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        super().check(config, world_size)
        need_package(config, "accelerate", "accelerate")
        refuse_mps(config)

    def place(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.module = model.to(self.world.device, weights_dtype(self.config.precision))
        with unchanged_process():
            self.accelerator = self.make_accelerator()
            whole = self.compiled(self.module)
            prepared = self.accelerator.prepare(whole, make_optimizer(self.module))
        self.model, self.optimizer = prepared
        # No rank may lose its running statistics to rank 0's, see Strategy.share_buffers. As an
        # argument torch 2.14 has another name for it, which Accelerate does not know.
        if self.world.world_size > 1:
            prepared[0].broadcast_buffers = False

    def make_accelerator(self) -> Accelerator:
        """Return an Accelerator that finds itself in the world that is there."""
        from accelerate import Accelerator, DistributedDataParallelKwargs

        device = self.world.device
        if device.type == "cuda" and device.index != self.world.local_rank:
            # Slurm may show each rank one GPU alone, which then has number 0 on every rank
            os.environ["ACCELERATE_BYPASS_DEVICE_MAP"] = "true"
        return Accelerator(
            cpu=device.type == "cpu",
            mixed_precision="no",
            kwargs_handlers=[DistributedDataParallelKwargs(**reducer_settings(self.config))],
        )

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if last else self.accelerator.no_sync(self.model)

    def differentiate(self, loss: torch.Tensor) -> None:
        self.accelerator.backward(loss)

    def clip(self, largest: float) -> torch.Tensor:
        return self.accelerator.clip_grad_norm_(self.module.parameters(), largest)

    def close(self) -> None:
        """Forget the world, which Accelerate keeps for the whole process."""
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


STRATEGIES = {"accelerate": Accelerate}
