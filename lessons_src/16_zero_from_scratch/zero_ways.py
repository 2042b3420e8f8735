"""Ways to shard a training step on one rank, and what the rank then holds: for lesson 16.

`Flat` keeps all weights in one flat tensor on every rank and takes its update from the lesson:
stages 0, 1 and 2. `Scheduled` is the course's worker of stage 3, which follows the lesson's lines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.scratch import zero
from dtlib.scratch.ring import all_gather
from dtlib.scratch.zero import schedule as s
from dtlib.scratch.zero.optimizers import Rule

MAKE: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1),
}
RULES: dict[str, Rule] = {"SGD": zero.SGD(0.1, 0.9), "AdamW": zero.AdamW(0.01, weight_decay=0.1)}

Step = Callable[[torch.Tensor], Any]
Update = Callable[[torch.Tensor, Callable[[Any], torch.optim.Optimizer]], Step]


@dataclass(frozen=True)
class Flat:
    """A way to train with all weights in one flat tensor on every rank: stages 0, 1 and 2.

    Parameters
    ----------
    update
        Takes the flat weights and `make_optimizer([tensor])`, returns `step(gradient)`.
    add
        Called after each backward with the parameters and the shard so far (None at first); what
        it returns is what `step` is given. Without it, that is the whole gradient.
    """

    update: Update
    add: Callable[[Sequence[nn.Parameter], torch.Tensor | None], torch.Tensor] | None = None

    def on_rank(self, model: nn.Module, kind: str) -> FlatRank:
        """This way on one rank."""
        return FlatRank(self, model, kind)


def from_shards(norm: Callable[[torch.Tensor], Any], max_norm: float) -> Update:
    """The update of stage 2: `step` is given a shard of the gradient, and clips it first.

    Parameters
    ----------
    norm
        Takes a shard, returns the norm of the whole gradient.
    max_norm
        What the gradient's norm may be.
    """

    def stage2(weights: torch.Tensor, make_optimizer: Any) -> Step:
        own = weights.tensor_split(dist.get_world_size())[dist.get_rank()]
        master = own.float()
        optimizer = make_optimizer([master])

        def step(shard: torch.Tensor) -> None:
            factor = min(1.0, max_norm / (float(norm(shard.float())) + 1e-6))  # 1e-6 as in torch
            master.grad = shard.float() * factor
            optimizer.step()
            own.copy_(master)
            optimizer.zero_grad()
            all_gather(weights)

        return step

    return stage2


class FlatRank:
    """What one rank does and holds under a `Flat`."""

    whole = contextlib.nullcontext  # where all weights can be seen: anywhere
    stairs: Sequence[int] = ()  # no layer is ever cut up

    def __init__(self, way: Flat, model: nn.Module, kind: str) -> None:
        self.way, self.model, self.kind = way, model, kind
        self.made: list[torch.optim.Optimizer] = []
        self.shard: torch.Tensor | None = None
        rank, n = dist.get_rank(), dist.get_world_size()
        self.bucket = zero.Bucket(list(model.parameters()), rank, n, decays=lambda p: True)
        self.update = way.update(self.bucket.flat, self._make)

    def _make(self, parameters: Any) -> torch.optim.Optimizer:
        self.made.append(MAKE[self.kind](parameters))
        return self.made[-1]

    def micro_batch(self, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
        (F.mse_loss(self.model(x), y) / k).backward()
        if self.way.add is not None:
            self.shard = self.way.add(self.bucket.params, self.shard)

    def step(self) -> None:
        gradient = self.bucket.take_gradient() if self.shard is None else self.shard
        self.shard = None
        self.update(gradient)

    def held(self) -> dict[str, list[torch.Tensor]]:
        groups = [group for optimizer in self.made for group in optimizer.param_groups]
        masters = [m for group in groups for m in group["params"]]
        states = [state for optimizer in self.made for state in optimizer.state.values()]
        gradients = [*(p.grad for p in self.bucket.params), self.shard]
        return {
            "parameters": [self.bucket.flat],
            "gradients": [g for g in gradients if g is not None],
            "optimizer": [value for state in states for value in state.values()],
            "fp32_copy": [m for m in masters if m.dtype != self.bucket.flat.dtype],
        }


@dataclass(frozen=True)
class Scheduled:
    """Stage 3, by the lines of a schedule; the last of them is the optimizer's step."""

    lines: Sequence[s.Instruction]

    def on_rank(self, model: nn.Module, kind: str) -> ScheduledRank:
        """This way on one rank."""
        return ScheduledRank(self.lines, model, kind)


class ScheduledRank(zero.ZeroStage3):
    """The course's worker, which follows the lines that it is given.

    Attributes
    ----------
    stairs
        Bytes of whole layers after each line of the last micro-batch.
    """

    def __init__(self, lines: Sequence[s.Instruction], model: nn.Module, kind: str) -> None:
        self.lines, self.stairs = lines, list[int]()
        super().__init__(model, RULES[kind], decays=lambda p: True)

    def micro_batch(self, x: torch.Tensor, y: torch.Tensor, k: int) -> None:
        self.x, self.passes, self.stairs = x, [], []
        output = None
        for line in self.lines:
            if isinstance(line, s.OptimizerStep):
                return
            if isinstance(line, s.Backward) and output is None:
                output = self.x.detach().requires_grad_()
                (F.mse_loss(output, y) / k).backward()
                self.gradient = output.grad
            self.carry_out([line])
            self.stairs.append(sum(b.flat.untyped_storage().nbytes() for b in self.buckets))


Way = Flat | Scheduled
