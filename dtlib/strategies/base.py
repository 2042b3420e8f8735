"""What every strategy does for the loop, in plain torch: one rank's precision, clip and step.

A subclass changes what its framework does otherwise. Whatever it does, after `backward` has seen
every micro-batch the gradient is the mean over the samples of the global batch.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from dtlib.errors import DtlibError, Unavailable
from dtlib.precision import AUTOCAST, weights_dtype

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.dist import World


@dataclass(frozen=True)
class StepResult:
    """What one step did: the gradient's 2-norm before the clip (0-d tensor), and if it counted."""

    grad_norm: torch.Tensor | None
    skipped: bool


class Strategy:
    """One process, no communication; the other strategies start from here.

    Attributes
    ----------
    model
        what the loop calls in training; `module` is the bare model below it.
    """

    model: torch.nn.Module
    module: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def __init__(self, config: RunConfig, world: World) -> None:
        self.config = config
        self.world = world
        # fp16 has no number below 6e-8: the loss is scaled up before backward, gradients down after
        fp16 = config.precision == "fp16"
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=fp16)
        self.skipped_in_a_row = 0

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        """Refuse a configuration that this strategy cannot run, before any rank starts."""

    def prepare(
        self,
        model: torch.nn.Module,
        make_optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    ) -> None:
        """Place the model on the device, in its precision, and make its optimizer."""
        self.module = model.to(self.world.device, weights_dtype(self.config.precision))
        self.optimizer = make_optimizer(self.module)
        self.model = self.wrap(compiled(self.module) if self.config.compile else self.module)

    def wrap(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return what the loop calls in training."""
        return model

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Around forward and loss only: the one place that knows of mixed precision."""
        dtype = AUTOCAST.get(self.config.precision)
        return torch.autocast(self.world.device.type, dtype=dtype, enabled=dtype is not None)

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Around forward *and* backward of a micro-batch; gradients travel only in the last."""
        return contextlib.nullcontext()

    def backward(self, loss_sum: torch.Tensor, global_count: torch.Tensor) -> None:
        """Add a micro-batch's share to the gradient of the mean loss over the global batch.

        Parameters
        ----------
        loss_sum
            summed, not averaged, loss of this micro-batch (0-d tensor).
        global_count
            samples or tokens in the whole global batch, over micro-batches and ranks (0-d tensor);
            0 when every label is ignored, which gives a gradient of 0 and no NaN.
        """
        factor = self.averaged_over() / global_count.clamp(min=1)
        self.scaler.scale(loss_sum * factor).backward()

    def averaged_over(self) -> int:
        """Return by what number the framework itself divides the sum of the ranks' gradients."""
        return 1

    def step(self, lr: float) -> StepResult:
        """Clip, take an optimizer step at `lr`, clear the gradients.

        An fp16 step whose gradients overflowed is skipped: weights and optimizer stay as they are.

        Raises
        ------
        DtlibError
            when more than `skip_limit` steps in a row overflowed.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.unscale_(self.optimizer)  # before the clip, which must see true gradients
        grad_norm = None
        if self.config.clip is not None:
            grad_norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.config.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        skipped = self.scaler.get_scale() < scale
        self.optimizer.zero_grad(set_to_none=True)
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0
        if self.skipped_in_a_row > self.config.skip_limit:
            raise DtlibError(
                f"fp16 overflowed in {self.skipped_in_a_row} steps in a row and the loss scale is"
                f" down to {self.scaler.get_scale():g}; use precision bf16, or a smaller lr."
            )
        return StepResult(grad_norm, skipped)

    def share_buffers(self) -> None:
        """Give every rank the same buffers (running statistics) before they are evaluated."""

    def state(self) -> dict[str, Any]:
        """Return all that a restart needs, as tensors and plain values."""
        return {
            "model": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up a state that `state` returned for the same model."""
        self.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.skipped_in_a_row = state["skipped_in_a_row"]


def compiled(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model under torch.compile; the bare model keeps its names and its parameters.

    Raises
    ------
    Unavailable
        when this machine has no C++ compiler, which the generated CPU kernels need.
    """
    if not any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++")):
        raise Unavailable("compile needs a C++ compiler; install g++ or clang, or drop compile.")
    return torch.compile(model)  # type: ignore[return-value]
