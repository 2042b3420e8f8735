"""What every strategy does for the loop, in plain torch: one rank's precision, clip and step.

A subclass overrides what its framework does differently. In every strategy, after `backward` has
seen every micro-batch the gradient is the mean over the samples of the global batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from dtlib.errors import DtlibError, counted
from dtlib.ranks.foresee import foresee
from dtlib.strategies import neutral
from dtlib.strategies.buffers import alike_on_all_ranks
from dtlib.strategies.micro_batches import Batch, Losses, Score, one_after_another
from dtlib.strategies.needs import bf16_instead, cpu_instead, need_compiler, refuse_unread
from dtlib.strategies.precision import AUTOCAST, choose_fp32, refuse_tf32, weights_dtype

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.config.plan import BatchPlan
    from dtlib.ranks.dist import World

MakeOptimizer = Callable[[torch.nn.Module], torch.optim.Optimizer]


@dataclass(frozen=True)
class StepResult:
    """A step's result: the gradient's 2-norm before the clip (0-d), and whether it was skipped."""

    grad_norm: torch.Tensor | None
    skipped: bool


class Strategy:
    """One process, no communication; the other strategies start from here.

    Attributes
    ----------
    model
        what the loop calls in training; `module` is the bare model below it.
    options
        the fields among `OPTIONS` that the strategy reads.
    axes
        the axes of a mesh that it has.
    shapes, parameters
        shapes and number of parameters of the whole model, counted before any of it is sharded.
    steps
        optimizer steps that moved the weights.
    """

    options: ClassVar[tuple[str, ...]] = ()
    axes: ClassVar[tuple[str, ...]] = ("data",)
    shapes: dict[str, dict[str, torch.Size]]
    parameters: int
    model: torch.nn.Module
    module: torch.nn.Module
    optimizer: torch.optim.Optimizer

    def __init__(self, config: RunConfig, world: World, plan: BatchPlan) -> None:
        self.config = config
        self.world = world
        self.plan = plan
        # of the ranks that share their samples, one speaks for all in sums over the ranks
        self.data_rank, self.speaks = plan.mesh.data_rank(world.rank), plan.mesh.speaks(world.rank)
        # fp16 has no number below 6e-8: the loss is scaled up before backward, gradients down after
        fp16 = config.precision == "fp16"
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=fp16)
        self.loss_scale = self.scaler.get_scale()  # the host's copy
        self.skipped_in_a_row = 0
        self.steps = 0

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        """Refuse a configuration that this strategy cannot run, before any rank starts.

        Raises `BadInput` for a setting that it would ignore; the message names the strategies that
        read it; `Unavailable` when something that it needs is missing here, with the remedy.
        """
        if config.precision == "tf32" or config.device == "cuda":
            found = foresee(world_size, config.device, cpu=cpu_instead(config))[0]
            refuse_tf32(config.precision, found)
        refuse_unread(cls, config, world_size)
        if config.compile:
            need_compiler(config)

    @classmethod
    def check_plan(cls, config: RunConfig, plan: BatchPlan) -> None:
        """Refuse a batch plan that this strategy cannot follow, before any rank starts."""

    @classmethod
    def surroundings(cls, config: RunConfig) -> contextlib.AbstractContextManager[None]:
        """Return a context around the ranks, in their parent: it cleans up if all ranks die."""
        return contextlib.nullcontext()

    def prepare(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        """Record the whole model's shapes, which sharding hides, then `place` the model."""
        self.shapes = neutral.shapes(model)
        self.parameters = sum(p.numel() for p in model.parameters())
        choose_fp32(self.config.precision, self.world.device)
        self.place(model, make_optimizer)

    def place(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        """Put the model on the device, in its precision, and make its optimizer."""
        self.module = model.to(self.world.device, weights_dtype(self.config.precision))
        self.optimizer = make_optimizer(self.module)
        self.model = self.wrap(self.compiled(self.module))

    def compiled(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return the model, compiled if the run asks for it; the bare model stays unchanged."""
        if not self.config.compile:
            return model
        return torch.compile(model, mode=self.config.compile_mode)  # type: ignore[return-value]

    def wrap(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return what the loop calls in training."""
        return model

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context of forward and loss: the only place with mixed precision."""
        dtype = AUTOCAST.get(self.config.precision)
        return torch.autocast(self.world.device.type, dtype=dtype, enabled=dtype is not None)

    def micro_step(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Return the context of a micro-batch's forward and backward; the last sends gradients."""
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
        self.differentiate(self.scaler.scale(loss_sum * factor))

    def differentiate(self, loss: torch.Tensor) -> None:
        """Add the gradient of a loss (0-d) to the gradients of earlier micro-batches."""
        loss.backward()

    def accumulate(
        self, task: Losses, micro_batches: Sequence[Batch], count: torch.Tensor
    ) -> torch.Tensor:
        """Add up the gradient of the global mean loss over all micro-batches of a step.

        A strategy that orders them itself, as a pipeline does, overrides this. Returns this rank's
        summed loss (0-d); of the ranks that share their samples only the one counts that
        `Mesh.speaks` names, in a pipeline the last stage.
        """
        return one_after_another(self, task, micro_batches, count)

    def loss(self, task: Losses, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the summed loss (0-d) of a micro-batch."""
        return task.training_loss(self.model, inputs, labels)

    def averaged_over(self) -> int:
        """Return the number by which the framework divides the sum of the ranks' gradients."""
        return 1

    def step(self, lr: float) -> StepResult:
        """Clip, take an optimizer step at `lr`, clear the gradients.

        An fp16 step whose gradients overflowed is skipped: weights and optimizer stay as they are.

        Raises `DtlibError` when more than `skip_limit` steps in a row overflowed.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.unscale_(self.optimizer)  # before the clip, which must see true gradients
        grad_norm = None if self.config.clip is None else self.clip(self.config.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        # fp16 waits for the device here: the next step's rate depends on whether this one counted
        before, self.loss_scale = self.loss_scale, self.scaler.get_scale()
        return self.counted(grad_norm, self.loss_scale < before, self.loss_scale)

    def clip(self, largest: float) -> torch.Tensor:
        """Scale the gradients down to a 2-norm of `largest`, and return their norm before (0-d)."""
        return torch.nn.utils.clip_grad_norm_(self.module.parameters(), largest)

    def counted(
        self, grad_norm: torch.Tensor | None, skipped: bool, loss_scale: float
    ) -> StepResult:
        """Count a step that was taken or skipped; every `step` ends with this call."""
        self.steps += not skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0
        if self.skipped_in_a_row > self.config.skip_limit:
            raise DtlibError(
                f"fp16 overflowed in {counted(self.skipped_in_a_row, 'step')} in a row and the loss"
                f" scale is down to {loss_scale:g}; use {bf16_instead(self.config)}, or a"
                " smaller lr."
            )
        return StepResult(grad_norm, skipped)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[Score]:
        """Yield the model that scores held-out batches: no gradients, no dropout, same precision.

        Every rank calls it equally often, each with a batch of its own (`Task.evaluate` works
        in rounds, and a rank that has run out repeats a batch whose labels are all ignored). So a
        sharded model can gather its weights in each forward, and never has to hold all of them.
        """
        self.share_buffers()
        self.module.eval()
        # not inference_mode: weights that a framework gathers in it could not be trained later
        with torch.no_grad(), self.autocast():
            yield self.module
        self.module.train()

    def share_buffers(self) -> None:
        """Give every rank the same buffers, before they are evaluated or saved."""
        if self.world.world_size > 1:
            alike_on_all_ranks(self.module, self.world)

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the whole tensor, of which this rank may hold a shard; called on every rank."""
        return tensor.detach()

    def share(self, like: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's share of a whole tensor, laid out like `like`; on every rank."""
        return whole.to(like.device, like.dtype)

    def state(self) -> dict[str, Any]:
        """Return everything that a restart needs, in the neutral form; called on every rank.

        Returns
        -------
        dict
            "model", "optimizer" and "steps" as `neutral` says, whole on rank 0 at least; and
            "scaler", "skipped_in_a_row", plain values for fp16.
        """
        model = neutral.named_tensors(self.module)
        return {
            "model": {name: self.whole(tensor) for name, tensor in model.items()},
            "optimizer": neutral.moments(self.module, self.optimizer, self.whole),
            "steps": self.steps,
            "scaler": self.scaler.state_dict(),
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a state that any strategy's `state` returned; called on every rank."""
        with torch.no_grad():
            for name, tensor in neutral.named_tensors(self.module).items():
                tensor.copy_(self.share(tensor, state["model"][name]))
        neutral.load_moments(self.module, self.optimizer, state, self.share)
        self.steps = state["steps"]
        self.scaler.load_state_dict(state["scaler"])
        self.loss_scale = self.scaler.get_scale()
        self.skipped_in_a_row = state["skipped_in_a_row"]

    def held(self) -> dict[str, list[torch.Tensor]]:
        """Return what this rank holds now, the framework's own buffers included.

        Returns
        -------
        dict
            "parameters", "gradients", "optimizer", "fp32_copy" (of weights kept in fewer bits):
            lists of plain tensors, of which several may be views of one storage.
        """
        parameters = list(self.module.parameters())
        moments = [v for state in self.optimizer.state.values() for v in state.values()]
        return {
            "parameters": [local(p) for p in parameters],
            "gradients": [local(p.grad) for p in parameters if p.grad is not None],
            "optimizer": [local(value) for value in moments if isinstance(value, torch.Tensor)],
            "fp32_copy": [],
        }

    def describe(self) -> dict[str, Any]:
        """Return what config.json records besides the settings: the framework's configuration."""
        return {}

    def close(self) -> None:
        """Release what a framework keeps for the whole process: settings, groups, files.

        Called once on every rank that is still running, also after a failure.
        """


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this rank holds of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor.detach()
