"""Fully sharded data parallel through torch's `fully_shard`.

Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel". It
shards what stage 3 of ZeRO shards (Rajbhandari et al. 2020).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from dtlib.errors import BadInput
from dtlib.strategies.base import Strategy
from dtlib.strategies.needs import bf16_instead, refuse_channels_last, refuse_mps
from dtlib.strategies.precision import AUTOCAST, weights_dtype

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

    from dtlib.config import RunConfig


class FSDP(Strategy):
    """Weights, gradients and optimizer in shards; a block's weights are whole while it computes.

    A block is gathered before its forward and again before its backward, and its gradients are
    reduce-scattered as soon as they are complete. With fewer `shard_ranks` than ranks, each group
    of that size holds one copy, and the groups sum their gradients (hybrid sharding).

    FSDP's policy alone sets the precision, without autocast: weights are gathered and compute in
    its type (layer norms too, batch norms not), gradients are reduced in fp32.
    """

    options = ("shard_ranks", "cpu_offload")
    root: FSDPModule

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        super().check(config, world_size)
        shard_ranks = config.shard_ranks or world_size
        if world_size % shard_ranks:
            raise BadInput(
                f"{world_size} ranks cannot be divided into groups of shard_ranks {shard_ranks};"
                " use a divisor."
            )
        if config.cpu_offload and config.precision == "fp16":
            instead = bf16_instead(config)
            raise BadInput(f"cpu_offload has no loss scaling; use {instead}, or no offload.")
        refuse_mps(config)
        refuse_channels_last(config)

    def place(
        self, model: nn.Module, make_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    ) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        ranks = self.config.shard_ranks or self.world.world_size
        sizes = {"replicate": self.world.world_size // ranks, "shard": ranks}
        if sizes["replicate"] == 1:
            del sizes["replicate"]
        kind, names = self.world.device.type, tuple(sizes)
        self.mesh = init_device_mesh(kind, tuple(sizes.values()), mesh_dim_names=names)
        model = model.to(dtype=weights_dtype(self.config.precision))
        units = blocks(model)
        for module in units if self.config.compile else []:
            module.compile(mode=self.config.compile_mode)  # in place: names stay
        for unit in units:  # each moves to the device and is cut before the next one
            self.shard(unit)
        self.root = self.shard(model, output_dtype=torch.float32)
        self.model = self.module = model  # the same object, which has become an FSDPModule too
        self.optimizer = make_optimizer(self.module)

    def shard(self, unit: nn.Module, output_dtype: torch.dtype | None = None) -> FSDPModule:
        """Shard a unit: what is in it, and in no unit inside it, is gathered together."""
        from torch.distributed.fsdp import (
            CPUOffloadPolicy,
            FSDPModule,
            MixedPrecisionPolicy,
            OffloadPolicy,
            fully_shard,
        )

        # pinned memory is for copies to a GPU, and there may be none
        offload = CPUOffloadPolicy(pin_memory=self.world.device.type == "cuda")
        where: dict[str, Any] = {
            "mesh": self.mesh,
            "offload_policy": offload if self.config.cpu_offload else OffloadPolicy(),
        }
        if self.config.precision not in AUTOCAST:
            return fully_shard(unit, **where)
        # running statistics are fp32, and no batch norm mixes them with weights in 16 bits
        norms: list[nn.Module] = [
            module
            for module in unit.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm)
            and not isinstance(module, FSDPModule)
        ]
        if norms:
            fully_shard(norms, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False), **where)
        low = AUTOCAST[self.config.precision]
        policy = MixedPrecisionPolicy(low, torch.float32, output_dtype)
        return fully_shard(unit, mp_policy=policy, **where)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def micro_step(self, last: bool) -> Iterator[None]:
        self.root.set_requires_gradient_sync(last)
        yield

    def averaged_over(self) -> int:
        return self.world.world_size

    def clip(self, largest: float) -> torch.Tensor:
        """Clip by the norm over all shards; offloaded ones are added up on the device."""
        local = self.held()["gradients"]
        square = torch.nn.utils.get_total_norm(local).square().to(self.world.device)
        torch.distributed.all_reduce(square, group=self.mesh.get_group("shard"))
        norm = square.sqrt()
        torch.nn.utils.clip_grads_with_norm_(self.module.parameters(), largest, norm)
        return norm

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[nn.Module]:
        with super().evaluating() as score:
            yield score
        self.root.reshard()  # the root stays whole after a forward, for the backward to come

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        from torch.distributed.tensor import DTensor

        if not isinstance(tensor, DTensor):  # a buffer
            return tensor.detach()
        full = DTensor.full_tensor(tensor.detach().to(self.world.device))  # type: ignore[arg-type]
        return full.to("cpu" if self.world.rank == 0 else "meta")  # meta: a shape and no memory

    def share(self, like: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        from torch.distributed.tensor import DTensor, distribute_tensor

        whole = whole.to(self.world.device, like.dtype)
        if not isinstance(like, DTensor):
            return whole
        # every rank has read the whole tensor, so none needs to be sent
        cut = distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)
        return cut.to(like.device)


def blocks(model: nn.Module) -> list[nn.Module]:
    """Return the modules that are gathered one by one: the members of the largest list of modules.

    Those of a language model are its transformer blocks, those of a ResNet its residual blocks;
    embeddings, stem and head are the root's.
    """
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList | nn.Sequential)]
    lists.sort(key=lambda m: sum(p.numel() for p in m.parameters()))
    return list(lists[-1]) if lists else []


STRATEGIES = {"fsdp": FSDP}
