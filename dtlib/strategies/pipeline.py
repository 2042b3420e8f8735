"""Pipeline parallel through torch.distributed.pipelining: each rank computes some of the layers.

Huang et al. 2019, "GPipe", arXiv:1811.06965; Narayanan et al. 2021, arXiv:2104.04473 (1F1B,
interleaved); Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from dtlib.config import pipelines
from dtlib.config.mesh import arranged
from dtlib.data.batches import seed_of
from dtlib.errors import BadInput
from dtlib.measure.profiling import mark
from dtlib.sim import shapes
from dtlib.strategies.base import MakeOptimizer, Strategy
from dtlib.strategies.needs import bf16_instead, instead, refuse_mps
from dtlib.strategies.precision import weights_dtype
from dtlib.strategies.stages import Head, Stage, keep_only, owner

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import _PipelineSchedule

    from dtlib.config import RunConfig
    from dtlib.config.plan import BatchPlan
    from dtlib.models.gpt import GPT
    from dtlib.ranks.dist import World
    from dtlib.strategies.micro_batches import Batch, Losses

TIED = "wte.weight"  # GPT's token embedding, which is its output layer too


class Pipeline(Strategy):
    """Stages of as many layers each; a step's micro-batches run through them in turn.

    The micro-batches are the accumulation, so the gradient is that of `single` with as much. The
    first stage and the last hold a copy of the tied embedding, each with a part of its gradient;
    both are summed before the step, so the copies stay equal (Megatron-LM does the same).
    """

    options = ("pipeline_schedule",)
    axes = ("data", "pipeline")

    def __init__(self, config: RunConfig, world: World, plan: BatchPlan) -> None:
        super().__init__(config, world, plan)
        self.ranks = plan.mesh.pipeline
        self.rank = plan.mesh.coordinates(world.rank)["pipeline"]
        self.schedule: _PipelineSchedule | None = None  # made when the size of a window is known

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        refuse_what_has_no_stages(config)  # before any option: no option makes it run
        super().check(config, world_size)
        refuse_mps(config)
        ranks = arranged(vars(config), world_size).pipeline
        if ranks == 1 < world_size:
            raise BadInput(
                "strategy pipeline divides layers among the ranks along the mesh's axis pipeline,"
                f" and the mesh {config.mesh} has 1; give it pipeline=2, or use strategy"
                f" {instead('ddp', config)}."
            )
        if shape := shapes.GPT.get(config.resolved("cpu").model or ""):  # else the task refuses it
            pipelines.chunks(config.pipeline_schedule, shape["layers"], ranks)

    @classmethod
    def check_plan(cls, config: RunConfig, plan: BatchPlan) -> None:
        ranks, schedule = plan.mesh.pipeline, config.pipeline_schedule
        pipelines.refuse_micro_batches(schedule, ranks, plan.accumulation)

    def place(self, model: torch.nn.Module, make_optimizer: MakeOptimizer) -> None:
        gpt: GPT = model  # type: ignore[assignment]  # `check` refuses all others
        self.layers, self.width = len(gpt.h), gpt.config.width
        many = pipelines.chunks(self.config.pipeline_schedule, self.layers, self.ranks)
        self.total = many * self.ranks
        self.holders = {
            stage: rank
            for rank in range(self.ranks)
            for stage in pipelines.stages_of(rank, self.ranks, self.config.pipeline_schedule, many)
        }
        self.own = [s for s in range(self.total) if self.holders[s] == self.rank]
        self.is_last = self.speaks = self.total - 1 in self.own
        keep_only(gpt, self.own, self.total)
        self.model = self.module = gpt.to(self.world.device, weights_dtype(self.config.precision))
        self.stages = {s: Stage(gpt, s, self.total, self.autocast) for s in self.own}
        self.head = Head(gpt.wte) if self.is_last else None
        self.optimizer = make_optimizer(self.module)
        self._make_groups()

    def _make_groups(self) -> None:
        """Connect the ranks of a pipeline, those of a stage, and both holders of the embedding."""
        everyone = torch.arange(self.plan.world_size).view(self.ranks, -1)  # pipeline by data
        ends = [self.holders[0], self.holders[self.total - 1]]
        self.pipeline = self._group(everyone.T.tolist())
        self.data = self._group(everyone.tolist())
        self.tied = self._group(everyone[ends].T.tolist()) if ends[0] != ends[1] else None

    def _group(self, groups: list[list[int]]) -> dist.ProcessGroup | None:
        """Make all groups, and return this rank's; None if it is in none, or alone."""
        if len(groups[0]) == 1:
            return None
        limit = datetime.timedelta(seconds=self.config.timeout)
        own = dist.new_subgroups_by_enumeration(groups, timeout=limit)[0]
        return own if isinstance(own, dist.ProcessGroup) else None

    def accumulate(
        self, task: Losses, micro_batches: Sequence[Batch], count: torch.Tensor
    ) -> torch.Tensor:
        """Run the schedule over a step's micro-batches; the last stage's rank has their loss."""
        if self.config.dropout:  # the ranks of a pipeline start a step from one seed
            torch.manual_seed(seed_of("stage", torch.initial_seed(), self.rank))
        self.share_of = task, 1 / count.clamp(min=1)
        inputs, labels = (torch.cat(each) for each in zip(*micro_batches, strict=True))
        if self.schedule is None:
            self.schedule = self._scheduled(micro_batches[0][0])
        losses: list[torch.Tensor] = []
        self.schedule.step(
            *([inputs] if 0 in self.stages else []),
            target=labels if self.is_last else None, losses=losses, return_outputs=False,
        )  # fmt: skip
        with mark("communication"):
            self._reduce()
        shares = [loss.detach() for loss in losses]
        return torch.stack(shares).sum() * count.clamp(min=1) if shares else count * 0

    def _loss(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return a micro-batch's share of the global mean loss."""
        assert self.head is not None  # the schedule calls it on the last stage
        task, factor = self.share_of
        with self.autocast():
            return task.training_loss(self.head, hidden, labels) * factor

    def _scheduled(self, tokens: torch.Tensor) -> _PipelineSchedule:
        """Return torch's schedule for micro-batches like this one, whose shapes all ranks know."""
        from torch.distributed.pipelining import PipelineStage, schedules

        dtype = weights_dtype(self.config.precision)
        vectors = torch.empty(*tokens.shape, self.width, dtype=dtype, device="meta")
        vectors.requires_grad_()
        stages = [
            PipelineStage(
                stage, number, self.total, self.world.device, group=self.pipeline,
                input_args=(tokens.to("meta") if number == 0 else vectors,), output_args=(vectors,),
            )
            for number, stage in self.stages.items()
        ]  # fmt: skip
        kind = getattr(schedules, pipelines.SCHEDULES[self.config.pipeline_schedule])
        single = issubclass(kind, schedules.PipelineScheduleSingle)
        return kind(
            stages[0] if single else stages, self.plan.accumulation, loss_fn=self._loss,
            scale_grads=False,  # `_loss` is a share of the mean already
        )  # fmt: skip

    def _reduce(self) -> None:
        """Sum the gradients over the ranks of a stage, and the embedding's over both holders."""
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        if self.data is not None:
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat, group=self.data)
            parts = flat.split([gradient.numel() for gradient in gradients])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))
        embedding = self.module.get_parameter(TIED) if self.tied is not None else None
        if embedding is not None and embedding.grad is not None:
            dist.all_reduce(embedding.grad, group=self.tied)

    def clip(self, largest: float) -> torch.Tensor:
        """Clip by the norm over all stages; the embedding's copy in the last one is left out."""
        named = self.module.named_parameters()
        answers = {name for name in self.shapes["model"] if self._holder(name) == self.rank}
        own = [p.grad for name, p in named if name in answers and p.grad is not None]
        square = torch.nn.utils.get_total_norm(own).square()
        if self.pipeline is not None:
            dist.all_reduce(square, group=self.pipeline)
        norm = square.sqrt()
        torch.nn.utils.clip_grads_with_norm_(self.module.parameters(), largest, norm)
        return norm

    def _holder(self, name: str) -> int:
        """Return the rank of the pipeline that answers for a parameter."""
        return self.holders[owner(name, self.total, self.layers)]

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[Any]:
        with super().evaluating():
            yield self.score

    def score(self, tokens: torch.Tensor) -> torch.Tensor | None:
        """Return the logits of a batch on the rank of the last stage, None on the others."""
        x = tokens
        for number in range(self.total):
            if self.holders[number] != self.rank:
                continue
            before, after = self.holders.get(number - 1), self.holders.get(number + 1)
            if before not in (None, self.rank):
                dtype = weights_dtype(self.config.precision)
                x = torch.empty(*tokens.shape, self.width, dtype=dtype, device=tokens.device)
                dist.recv(x, group=self.pipeline, group_src=before)
            x = self.stages[number](x)
            if after not in (None, self.rank):
                dist.send(x, group=self.pipeline, group_dst=after)
        return self.head(x) if self.head is not None else None

    def state(self) -> dict[str, Any]:
        found = super().state()
        found["model"] = self._collected(found["model"], self.shapes["model"])
        for kind, own in found["optimizer"].items():
            found["optimizer"][kind] = self._collected(own, self.shapes["moments"])
        return found

    def _collected(
        self, own: dict[str, torch.Tensor], shapes: dict[str, torch.Size]
    ) -> dict[str, torch.Tensor]:
        """Bring the tensors of all stages to rank 0; elsewhere they are shapes without memory."""
        found: dict[str, torch.Tensor] = {}
        first = self.plan.mesh.data_rank(self.world.rank) == 0
        for name, shape in shapes.items():
            source = self._holder(name)
            tensor = own.get(name, torch.empty(0))
            if first and self.rank == 0 and source != 0:
                dtype = weights_dtype(self.config.precision)
                tensor = torch.empty(shape, dtype=dtype, device=self.world.device)
                dist.recv(tensor, group=self.pipeline, group_src=source)
            elif first and self.rank == source != 0:
                dist.send(tensor.contiguous(), group=self.pipeline, group_dst=0)
            main = self.world.rank == 0
            found[name] = tensor.cpu() if main else torch.empty(shape, device="meta")
        return found

    def describe(self) -> dict[str, Any]:
        torchs = pipelines.SCHEDULES[self.config.pipeline_schedule]
        ranks = [self.holders[stage] for stage in range(self.total)]
        return {"pipeline": {"schedule": torchs, "rank_of_stage": ranks}}

    def close(self) -> None:
        self.schedule = None  # with the buffers of its messages; it refers to itself


def refuse_what_has_no_stages(config: RunConfig) -> None:
    """Refuse models, precisions and ways to compute that a schedule of stages cannot take.

    Raises `BadInput`.
    """
    model = config.model or ""
    if config.task != "text" or model.startswith("hf:"):
        what = f"model {model}" if config.task == "text" else f"task {config.task}"
        raise BadInput(
            f"strategy pipeline cuts dtlib's own GPT into stages of layers, not {what}; use"
            f" strategy {instead('ddp', config)}."
        )
    if config.precision == "fp16":
        raise BadInput(
            "strategy pipeline has no loss scaling that all stages share, and precision is"
            f" fp16; use {bf16_instead(config)}."
        )
    for key, off in (("activation_checkpointing", "none"), ("compile", False)):
        if getattr(config, key) != off:
            raise BadInput(
                f"{key} does not go with strategy pipeline, whose schedule takes a stage's"
                f" backward apart; leave it out, or use strategy {instead('ddp', config)}."
            )
    if config.micro_batch == "auto":
        raise BadInput(
            "micro_batch auto is tried on one rank's whole model, and a stage of a pipeline is"
            " a part of it; give --micro-batch a number."
        )


STRATEGIES = {"pipeline": Pipeline}
