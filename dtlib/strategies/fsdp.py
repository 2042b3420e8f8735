"""Fully sharded data parallel through torch's `fully_shard`.

Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel". It
shards what stage 3 of ZeRO shards (Rajbhandari et al. 2020).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from dtlib.config.mesh import arranged
from dtlib.errors import BadInput
from dtlib.strategies.base import Strategy, local
from dtlib.strategies.matrices import (
    apart,
    cut,
    is_cut,
    parts_of_logits,
    refuse_uncut,
    reordered,
    together,
    whole_of,
)
from dtlib.strategies.micro_batches import Losses, Score
from dtlib.strategies.needs import bf16_instead, refuse_channels_last, refuse_mps
from dtlib.strategies.optim import by_mesh
from dtlib.strategies.precision import AUTOCAST, weights_dtype

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule

    from dtlib.config import RunConfig


class FSDP(Strategy):
    """Weights, gradients and optimizer in shards; a block's weights are whole while it computes.

    A block is gathered before its forward and again before its backward, and its gradients are
    reduce-scattered as soon as they are complete. With fewer `shard_ranks` than ranks, each group
    of that size holds one copy, and the groups sum their gradients (hybrid sharding). A mesh says
    the same: `shard_ranks` 2 on 4 ranks is `replicate=2,data=2`. With a tensor axis, a rank has
    its part of each matrix (`matrices`), and the parts are sharded along `data`.

    FSDP's policy alone sets the precision, without autocast: weights are gathered and compute in
    its type (layer norms too, batch norms not), gradients are reduced in fp32.
    """

    options: ClassVar[tuple[str, ...]] = ("shard_ranks", "cpu_offload")
    axes: ClassVar[tuple[str, ...]] = ("data", "replicate", "tensor")
    root: FSDPModule
    tensor: DeviceMesh | None = None  # the ranks among which matrices are divided

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
        refuse_uncut(config, arranged(vars(config), world_size).tensor)

    def sizes(self) -> dict[str, int]:
        """Return the dimensions of torch's mesh; `data` is the one that is sharded along."""
        mesh = self.plan.mesh
        return {"replicate": mesh.replicate, "data": mesh.data, "tensor": mesh.tensor}

    def place(
        self, model: nn.Module, make_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    ) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        sizes = {name: n for name, n in self.sizes().items() if n > 1 or name == "data"}
        kind, names = self.world.device.type, tuple(sizes)
        whole = init_device_mesh(kind, tuple(sizes.values()), mesh_dim_names=names)
        self.mesh = whole["replicate", "data"] if "replicate" in sizes else whole["data"]
        model = model.to(dtype=weights_dtype(self.config.precision))
        if "tensor" in sizes:
            self.tensor = whole["tensor"]
            cut(model, self.tensor)  # type: ignore[arg-type]  # a GPT, as `check` has seen
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
        with parts_of_logits() if self.tensor else contextlib.nullcontext():
            yield

    def loss(self, task: Losses, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if not self.tensor:
            return super().loss(task, inputs, labels)
        # each rank has the logits of its own words, so no chunks of them are needed
        return local(task.loss_sum(self.model(inputs), labels))

    def averaged_over(self) -> int:
        return self.plan.mesh.data_size

    def clip(self, largest: float) -> torch.Tensor:
        """Clip by the norm over all shards; offloaded ones are added up on the device."""
        grads = [p.grad for p in self.module.parameters() if p.grad is not None]
        if self.tensor and self.tensor.get_local_rank() > 0:  # whole ones count once
            grads = [grad for grad in grads if is_cut(grad)]
        norm_here = torch.nn.utils.get_total_norm([local(grad) for grad in grads])
        square = norm_here.square().to(self.world.device)
        torch.distributed.all_reduce(square, group=self.mesh.get_group("data"))
        if self.tensor:
            torch.distributed.all_reduce(square, group=self.tensor.get_group())
        norm = square.sqrt()
        for parameters in by_mesh(self.module.parameters()):
            torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm)
        return norm

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[Score]:
        with super().evaluating() as score:
            yield (lambda inputs: whole_of(score(inputs))) if self.tensor else score
        self.root.reshard()  # the root stays whole after a forward, for the backward to come

    def state(self) -> dict[str, Any]:
        state = super().state()
        return reordered(state, apart, self.tensor.size()) if self.tensor else state

    def load_state(self, state: dict[str, Any]) -> None:
        ranks = self.tensor.size() if self.tensor else 1
        super().load_state(reordered(state, together, ranks) if ranks > 1 else state)

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        from torch.distributed.tensor import DTensor

        if not isinstance(tensor, DTensor):  # a buffer
            return tensor.detach()
        full = whole_of(tensor.detach().to(self.world.device))
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
