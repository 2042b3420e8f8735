"""Write down what happens while the loop trains: steps, evaluations, and the summary at the end.

It keeps the loop free of files and clocks. Its methods are called on every rank.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dtlib.errors import DtlibError
from dtlib.ranks import dist, launcher
from dtlib.strategies.precision import sums_dtype
from dtlib.training.checkpoint import Progress
from dtlib.training.record import RunFiles, StepTimer, memory_columns, synchronizer

if TYPE_CHECKING:
    from dtlib.strategies.base import StepResult, Strategy
    from dtlib.training.tasks.base import Task

FLUSH_EVERY = 10  # steps between two collections of the losses, which wait for the device


class Recorder:
    """Records one run on one rank, and keeps its progress up to date.

    Parameters
    ----------
    folder, settings
        Of the run; every setting, JSON values only.
    strategy
        What the run trains with.
    total
        Steps that the run takes in all.
    progress
        How far an earlier start came, or None for a new run; kept up to date from here on.
    untimed
        Steps from here on that enter no timing.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        strategy: Strategy,
        total: int,
        *,
        progress: Progress | None = None,
        untimed: int = 0,
    ) -> None:
        self.folder, self.total = folder, total
        self.progress = progress or Progress()
        self._strategy, self._plan = strategy, strategy.plan
        self._device = strategy.world.device
        self.timer = StepTimer(untimed, synchronize=synchronizer(self._device))
        self._waiting: list[dict[str, Any]] = []
        self._loss_step = self.progress.step  # whose loss `progress.loss` is
        self._held_out = (-1, math.nan)  # the last evaluation: after which step, and its loss
        resumed_from = progress.step if progress else None
        self._files = RunFiles(folder, settings, strategy.world, resumed_from=resumed_from)

    def step(self, result: StepResult, lr: float, loss_sum: torch.Tensor, count: Any) -> None:
        """Note one step; the loss is added up over the ranks at the next flush."""
        seconds = self.timer.stop()
        self.progress.step += 1
        self.progress.skipped_steps += result.skipped
        self.progress.optimizer_steps += not result.skipped
        line: dict[str, Any] = {"step": self.progress.step, "lr": lr, "seconds": seconds}
        line["skipped"] = result.skipped
        if result.grad_norm is not None:
            line["grad_norm"] = result.grad_norm
        self._waiting.append({**line, "loss_sum": loss_sum, "count": count})
        if self.progress.due(FLUSH_EVERY) or self.progress.step in (1, self.total):
            self.flush()
        launcher.progress(
            self.progress.step,
            self.total,
            **loss_of(self.progress.loss, self._loss_step, self.progress.step),
        )

    def flush(self) -> None:
        """Collect the losses of the waiting steps in one all_reduce, and write their lines.

        Raises `DtlibError` when a loss is not finite.
        """
        if not self._waiting:
            return
        own = torch.stack([line.pop("loss_sum") for line in self._waiting])
        sums = dist.sum_over_ranks(own.to(sums_dtype(self._device), copy=True)).tolist()
        for line, mine, total in zip(self._waiting, own.tolist(), sums, strict=True):
            step, seconds = line.pop("step"), line["seconds"]
            line["count"] = int(line["count"])
            self.progress.loss, self._loss_step = total / max(1, line["count"]), step
            self._files.step(step, loss=self.progress.loss, **line)
            self._files.rank_step(step, loss_sum=mine, seconds=seconds)
            if not (math.isfinite(self.progress.loss) or line["skipped"]):
                raise DtlibError(
                    f"the loss is {self.progress.loss} in step {step}, so the weights are lost; try"
                    f" a lower lr than {self._strategy.config.lr}, a warm-up, or clip 1."
                )
        self._waiting.clear()

    def evaluated(self, task: Task, figures: Mapping[str, Any]) -> None:
        """Note what an evaluation found."""
        self.flush()
        self._held_out = (self.progress.step, figures[task.held_out_loss])
        self._files.evaluation(self.progress.step, **figures)

    @property
    def held_out_loss(self) -> float | None:
        """The held-out loss after the last step, if there was an evaluation after it."""
        step, loss = self._held_out
        return loss if step == self.progress.step else None

    def stopped(self) -> None:
        """Say in the folder that the run wants to go on, and close the files."""
        self._files.requeue(self.progress.step)
        self._files.close()

    def finish(self, task: Task, figures: Mapping[str, Any], measured: Mapping[str, Any]) -> None:
        """Write the summary, with what instruments have measured."""
        if not dist.is_main():
            self._files.close()
            return
        timing = self.timer.columns(self._plan.global_batch * task.units_per_sample, task.unit)
        if timing["step_time_s"] is not None:
            timing["epoch_time_s"] = timing["step_time_s"] * task.steps_per_epoch(self._plan)
        progress = dataclasses.asdict(self.progress)
        summary = dataclasses.asdict(self._plan) | {"parameters": self._strategy.parameters}
        summary |= {"steps": progress.pop("step"), **progress, "metric": figures[task.metric]}
        config = self._strategy.config
        summary["compile_mode"] = config.compile_mode if config.compile else None
        summary |= {"evaluation": {**figures, **task.extras()}, **timing}
        self._files.finish(summary | memory_columns(self._device) | dict(measured))


def loss_of(loss: float, of: int, step: int) -> dict[str, float]:
    """Name a loss for the progress: one of an earlier step says of which, none says nothing."""
    if of == 0 or math.isnan(loss):
        return {}
    return {"loss" if of == step else f"loss of step {of}:": loss}
