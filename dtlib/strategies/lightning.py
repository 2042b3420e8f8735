"""Data parallel through Lightning Fabric, on the ranks that are already running."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from dtlib.strategies.base import MakeOptimizer
from dtlib.strategies.ddp import DDP, SYNC_BUFFERS, reducer_settings
from dtlib.strategies.needs import need_package, refuse_mps, unchanged_process
from dtlib.strategies.precision import weights_dtype

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.wrappers import _FabricModule

    from dtlib.config import RunConfig


class Lightning(DDP):
    """A model that `Fabric` set up, which on several ranks means torch's DDP.

    Fabric finds the ranks running and starts none. Its mixed precision stays off, because the base
    class has the autocast, so the optimizer needs no wrapper of Fabric's either.
    """

    options = ("bucket_cap_mb", "static_graph")
    model: _FabricModule

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        super().check(config, world_size)
        need_package(config, "lightning_fabric", "lightning")
        refuse_mps(config)

    def place(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        module = model.to(self.world.device, weights_dtype(self.config.precision))
        with unchanged_process():
            self.fabric = self.make_fabric()
            self.fabric.launch()  # joins, because its environment says that the ranks are running
            self.model = self.fabric.setup_module(self.compiled(module))
        self.module = module
        self.optimizer = make_optimizer(module)

    def make_fabric(self) -> Fabric:
        """Return a Fabric that takes every rank for a node with one device."""
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments import TorchElasticEnvironment
        from lightning_fabric.strategies import DDPStrategy

        class OneDeviceEach(TorchElasticEnvironment):
            def local_rank(self) -> int:
                return 0

        no_sync_of_buffers: dict[str, Any] = {SYNC_BUFFERS: False}
        ddp = DDPStrategy(
            cluster_environment=OneDeviceEach(),
            process_group_backend=self.world.backend,
            **no_sync_of_buffers,
            **reducer_settings(self.config),
        )
        device = self.world.device
        return Fabric(
            accelerator=device.type, devices=[device.index] if device.type == "cuda" else 1,
            num_nodes=self.world.world_size, strategy=ddp, precision="32-true",
        )  # fmt: skip

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        return self.fabric.no_backward_sync(self.model, enabled=not last)

    def differentiate(self, loss: torch.Tensor) -> None:
        self.fabric.backward(loss)

    def clip(self, largest: float) -> torch.Tensor:
        norm = self.fabric.clip_gradients(
            self.model, self.optimizer, max_norm=largest, error_if_nonfinite=False
        )
        assert norm is not None
        return norm


STRATEGIES = {"lightning": Lightning}
