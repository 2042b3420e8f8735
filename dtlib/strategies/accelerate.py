"""Data parallel through Hugging Face Accelerate, on the ranks that are already running."""

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
    """A model that `Accelerator` prepared, which on several ranks means torch's DDP.

    Three of its helpers stay off, because the loop does their work: mixed precision (the base class
    has the autocast), division by the accumulation steps (`backward` has the true count), and
    prepared schedulers, which step once per rank.
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
        # Rank 0 must not overwrite other ranks' running statistics, see Strategy.share_buffers. Not
        # an argument, because torch 2.14 has renamed it and Accelerate does not know the new name.
        if self.world.world_size > 1:
            prepared[0].broadcast_buffers = False

    def make_accelerator(self) -> Accelerator:
        """Return an Accelerator that joins the ranks that are already running."""
        from accelerate import Accelerator, DistributedDataParallelKwargs

        device = self.world.device
        if device.type == "cuda" and device.index != self.world.local_rank:
            # Slurm may let each rank see only its own GPU, which then has number 0 on every rank
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
        """Reset the world, which Accelerate keeps for the whole process."""
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


STRATEGIES = {"accelerate": Accelerate}
