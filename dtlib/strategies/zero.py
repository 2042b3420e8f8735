"""ZeRO through DeepSpeed: `zero1`, `zero2`, `zero3`, `offload` and `infinity`.

Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models";
Ren et al. 2021, "ZeRO-Offload"; Rajbhandari et al. 2021, "ZeRO-Infinity".
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks.foresee import foresee
from dtlib.strategies import deepspeed_config, deepspeed_state, nvme
from dtlib.strategies import operators as ops
from dtlib.strategies.base import MakeOptimizer, StepResult, Strategy
from dtlib.strategies.deepspeed_config import Sizes
from dtlib.strategies.needs import compile_settings, instead, refuse_channels_last
from dtlib.strategies.precision import AUTOCAST

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.config.plan import BatchPlan
    from dtlib.ranks.dist import World


class Zero(Strategy):
    """DeepSpeed's engine around the model: it owns precision, gradients, clip and optimizer.

    In bf16 and fp16 the weights themselves are in 16 bits, with an fp32 copy that is sharded, and
    nothing runs under autocast: inputs go in as 16 bits, logits come out as 32.
    """

    options: ClassVar[tuple[str, ...]] = ("zero_stage", "deepspeed")
    optimizer: Any  # DeepSpeed's, around torch's
    operators: ClassVar[tuple[str, ...]] = ()  # compiled ones that it loads if they are built

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        super().check(config, world_size)
        refuse_channels_last(config)
        name = f"strategy {config.strategy}"
        ops.refuse_without_deepspeed(name, instead("fsdp", config))
        if config.precision == "fp64":
            fit = f"{instead('ddp', config)} or {instead('fsdp', config)}"
            raise BadInput(
                f"DeepSpeed has no precision fp64, because its optimizer works in fp32;"
                f" {name} takes fp32, bf16 or fp16, and fp64 needs {fit}."
            )
        kind, _ = foresee(world_size, config.device)
        if kind == "mps":
            raise BadInput(f"{name} runs on cpu and cuda, not on mps; use device cpu.")
        if deepspeed_config.stage_of(config) == 3 and config.compile:
            raise BadInput(
                f"torch.compile cannot trace the layers of DeepSpeed's stage 3, which {name} uses;"
                f" drop {compile_settings(config)}, or use strategy {instead('fsdp', config)}."
            )

    @classmethod
    def check_plan(cls, config: RunConfig, plan: BatchPlan) -> None:
        if config.deepspeed is not None:
            kind, _ = foresee(plan.world_size, config.device)
            resolved = config.resolved(kind)
            own = deepspeed_config.read(config.deepspeed)
            made = deepspeed_config.make(resolved, plan, Sizes(1, 1, 1))
            deepspeed_config.refuse_contradictions(own, made, resolved, plan)
            deepspeed_config.fill_in(own, made)

    def __init__(self, config: RunConfig, world: World, plan: BatchPlan) -> None:
        super().__init__(config, world, plan)
        self.stage = deepspeed_config.stage_of(config)

    def place(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        """Give the model to DeepSpeed, which joins the existing process group."""
        deepspeed = ops.deepspeed(self.world.device.type)
        ops.load(self.operators)
        join(deepspeed, self.world)
        self.json = self.configuration(Sizes(
            self.parameters, max(p.numel() for p in model.parameters()), len(self.shapes["moments"])
        ))  # fmt: skip
        # the optimizer's groups say which weights decay; the JSON says how it steps
        groups = [
            {key: group[key] for key in ("params", "weight_decay")}
            for group in make_optimizer(model).param_groups
        ]
        self._hook_precision(model)
        # the default is the local rank, which is wrong if each rank sees only its own GPU
        own = SimpleNamespace(device_rank=self.world.device.index or 0)
        self.engine, self.optimizer, _, _ = deepspeed.initialize(
            args=own, model=model, model_parameters=groups, config=self.json
        )
        self.module = model
        self.model = self.engine
        if self.config.compile:
            self.engine.compile(compile_kwargs={"mode": self.config.compile_mode})

    def configuration(self, sizes: Sizes) -> dict[str, Any]:
        """Return DeepSpeed's JSON for this run: dtlib's, or the user's own filled in."""
        compiled = bool(self.operators) and not ops.not_built(("cpu_adam",))
        made = deepspeed_config.make(
            self.config, self.plan, sizes, compiled_adam=compiled,
            on_gpu=self.world.device.type == "cuda",
        )  # fmt: skip
        if self.config.deepspeed is None:
            return made
        return deepspeed_config.fill_in(deepspeed_config.read(self.config.deepspeed), made)

    def _hook_precision(self, model: torch.nn.Module) -> None:
        """Convert inputs to the 16 bits of the weights, and logits to fp32 for the loss."""
        dtype = AUTOCAST.get(self.config.precision)
        if dtype is None:
            return
        model.register_forward_pre_hook(
            lambda _, inputs: tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
        )
        model.register_forward_hook(lambda _, inputs, logits: logits.float())

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Stage 1 sends gradients only in the last micro-batch, stages 2 and 3 in every one."""
        self.engine.set_gradient_accumulation_boundary(last)
        return contextlib.nullcontext()

    def backward(self, loss_sum: torch.Tensor, global_count: torch.Tensor) -> None:
        loss = loss_sum * (self.world.world_size / global_count.clamp(min=1))
        self.engine.backward(loss.to(loss_sum.dtype), scale_wrt_gas=False)

    def step(self, lr: float) -> StepResult:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        try:
            self.engine.step()
        except Exception as error:  # DeepSpeed has no exception class for it
            if "loss scale already at minimum" not in str(error):
                raise
            self.skipped_in_a_row = self.config.skip_limit  # one more is too many
        skipped = bool(self.optimizer.overflow)
        if skipped and self.config.precision != "fp16":
            raise DtlibError(
                f"the gradient of step {self.steps + 1} is not finite; try a lower lr than"
                f" {self.config.lr}, a warm-up, or clip 1."
            )
        norm = torch.as_tensor(self.engine.get_global_grad_norm(), device=self.world.device)
        return self.counted(norm, skipped, self.optimizer.loss_scale)

    def state(self) -> dict[str, Any]:
        return {
            **deepspeed_state.gather(self.module, self.optimizer, self.world.rank == 0),
            "steps": self.steps,
            "scaler": deepspeed_state.scaler(self.optimizer),
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        deepspeed_state.scatter(self.module, self.optimizer, state)
        deepspeed_state.load_scaler(self.optimizer, state["scaler"])
        self.steps = state["steps"]
        self.skipped_in_a_row = state["skipped_in_a_row"]

    def held(self) -> dict[str, list[torch.Tensor]]:
        return deepspeed_state.held(self.module, self.optimizer)

    def describe(self) -> dict[str, Any]:
        return {"deepspeed": self.json}

    def close(self) -> None:
        if hasattr(self, "engine"):
            self.engine.destroy()


class Offload(Zero):
    """Stage 2 or 3 with the optimizer's state and step on the CPU.

    Adam is DeepSpeed's own if set-up has built it, otherwise torch's, which is slower.
    """

    operators = ops.NEEDED["offload"]

    def place(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        slower = self.config.optimizer == "adamw" and ops.not_built(["cpu_adam"])
        if slower and self.world.rank == 0:
            print(
                "offload uses torch's slower AdamW, because DeepSpeed's own is not built here;"
                f" `{ops.BUILD}` builds it once.",
                flush=True,
            )
        super().place(model, make_optimizer)


class Infinity(Zero):
    """Stage 3 with weights and optimizer in files, on NVMe or any other disk."""

    options = ("zero_stage", "deepspeed", "nvme")
    operators = ops.NEEDED["infinity"]

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        super().check(config, world_size)
        nvme.check(config)

    @classmethod
    @contextlib.contextmanager
    def surroundings(cls, config: RunConfig) -> Iterator[None]:
        try:
            yield
        finally:
            nvme.clear(nvme.folder(config))
            nvme.leave(nvme.folder(config), config)

    def place(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.files = nvme.make(self.config, self.parameters)
        ops.deepspeed(self.world.device.type)
        largest = max(p.numel() for p in model.parameters())
        nvme.set_thresholds(-(-largest // self.world.world_size))
        super().place(model, make_optimizer)

    def configuration(self, sizes: Sizes) -> dict[str, Any]:
        return nvme.into(super().configuration(sizes), self.files)

    def close(self) -> None:
        super().close()
        if hasattr(self, "files"):
            shutil.rmtree(self.files, ignore_errors=True)
            nvme.leave(self.files.parent, self.config)


def join(deepspeed: Any, world: World) -> None:
    """Let DeepSpeed use the existing process group, with its time-out."""
    from deepspeed.accelerator import get_accelerator
    from deepspeed.utils import groups

    deepspeed.init_distributed(world.backend)
    groups._WORLD_GROUP = (
        torch.distributed.group.WORLD
    )  # otherwise a clone with a time-out of 30 minutes
    if world.device.type == "cpu":
        # It asks for 16-bit instructions of the processor; torch also computes without, but slowly
        accelerator = get_accelerator()
        accelerator.is_fp16_supported = accelerator.is_bf16_supported = lambda: True


STRATEGIES = {"zero1": Zero, "zero2": Zero, "zero3": Zero, "offload": Offload, "infinity": Infinity}
