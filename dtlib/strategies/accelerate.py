"""Data parallel through Hugging Face Accelerate, in the world that is there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from dtlib.precision import weights_dtype
from dtlib.strategies.base import Strategy
from dtlib.strategies.ddp import reducer_settings, refuse_static_graph_if_deterministic
from dtlib.strategies.needs import compiled, need_package, refuse_mps

if TYPE_CHECKING:
    from dtlib.config import RunConfig


class Accelerate(Strategy):
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
        refuse_static_graph_if_deterministic(config)

    def place(
        self,
        model: torch.nn.Module,
        make_optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    ) -> None:
        from accelerate import Accelerator, DistributedDataParallelKwargs

        self.module = model.to(self.world.device, weights_dtype(self.config.precision))
        optimizer = make_optimizer(self.module)
        with unchanged_process(self.world.device, self.world.local_rank):
            self.accelerator = Accelerator(
                cpu=self.world.device.type == "cpu",
                mixed_precision="no",
                kwargs_handlers=[DistributedDataParallelKwargs(**reducer_settings(self.config))],
            )
            self.model, self.optimizer = self.accelerator.prepare(
                compiled(self.module) if self.config.compile else self.module, optimizer
            )

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if last else self.accelerator.no_sync(self.model)

    def differentiate(self, loss: torch.Tensor) -> None:
        self.accelerator.backward(loss)

    def averaged_over(self) -> int:
        return self.world.world_size

    def clip(self, largest: float) -> torch.Tensor:
        return self.accelerator.clip_grad_norm_(self.module.parameters(), largest)

    def close(self) -> None:
        """Forget the world, which Accelerate keeps for the whole process."""
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


@contextlib.contextmanager
def unchanged_process(device: torch.device, local_rank: int) -> Iterator[None]:
    """Take back what making an Accelerator changes: variables, and the number of threads."""
    variables, threads = dict(os.environ), torch.get_num_threads()
    if device.type == "cuda" and device.index != local_rank:
        # Slurm may show each rank one GPU alone, which then has number 0 on every rank
        os.environ["ACCELERATE_BYPASS_DEVICE_MAP"] = "true"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        torch.set_num_threads(threads)


STRATEGIES = {"accelerate": Accelerate}
