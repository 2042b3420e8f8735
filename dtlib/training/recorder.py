"""Write down what happens while the loop trains: steps, evaluations, and the summary at the end.

It keeps files and clocks out of the loop. Every rank calls its methods.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dtlib.data.batches import to_device
from dtlib.errors import DtlibError
from dtlib.ranks import dist, launcher
from dtlib.strategies.precision import sums_dtype
from dtlib.training.checkpoint import Progress
from dtlib.training.record import RunFiles, StepTimer, memory_columns

if TYPE_CHECKING:
    from dtlib.strategies.base import StepResult, Strategy
    from dtlib.training.tasks.base import Task

READ_EVERY = 10  # most steps between two readings, each of which waits for the device
READ_WITHIN = 1.0  # most seconds, so that a signal is noticed long before a job ends


class Recorder:
    """Records one run on one rank, and keeps its progress up to date.

    Parameters
    ----------
    folder, settings
        The run's folder, and all of its settings as JSON values.
    strategy
        The strategy that the run trains with.
    total
        Total number of steps of the run.
    timer
        The clock for the steps from here on.
    progress
        How far an earlier start got, or None for a new run; kept up to date from here on.

    Attributes
    ----------
    asked_to_stop
        Whether any rank had been asked to stop at the last reading; the same on all ranks.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        strategy: Strategy,
        total: int,
        timer: StepTimer,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.folder, self.total = folder, total
        self.progress = progress or Progress()
        self._strategy, self._plan = strategy, strategy.plan
        self._device = strategy.world.device
        self.timer = timer
        self.asked_to_stop = False
        self._waiting: list[tuple[dict[str, Any], list[torch.Tensor]]] = []
        self._next_reading = 0  # the step after which it comes
        self._seconds: list[float] = []  # times of the steps in the last reading
        self._loss_step = self.progress.step  # the step that `progress.loss` belongs to
        self._held_out = (-1, math.nan)  # the last evaluation: its step and its loss
        resumed_from = progress.step if progress else None
        self._files = RunFiles(folder, settings, strategy.world, resumed_from=resumed_from)

    def step(
        self, result: StepResult, lr: float, loss_sum: torch.Tensor, count: torch.Tensor
    ) -> None:
        """Record one step; its results stay on the device until the next reading."""
        self.timer.stop()
        self.progress.step += 1
        self.progress.skipped_steps += result.skipped
        self.progress.optimizer_steps += not result.skipped
        line = {"step": self.progress.step, "lr": lr, "skipped": result.skipped}
        norm = [] if result.grad_norm is None else [result.grad_norm]
        self._waiting.append((line, [loss_sum, count, *norm]))
        if self.progress.step >= min(self._next_reading, self.total):
            self.read()
        launcher.progress(
            self.progress.step,
            self.total,
            **loss_of(self.progress.loss, self._loss_step, self.progress.step),
        )

    def flush(self) -> None:
        """Read the waiting steps, if there are any, and write their lines."""
        if self._waiting:
            self.read()

    def read(self) -> None:
        """Read the waiting steps' results from the device, and whether any rank was asked to stop.

        Only here does training wait for the device, and one all_reduce serves both purposes. Rank
        0 also sends how many steps away the next reading is, so that all ranks agree on it.

        Raises `DtlibError` when a loss is not finite.
        """
        waiting, self._waiting = self._waiting, []
        dtype = sums_dtype(self._device)
        ahead = self._steps_ahead() if dist.is_main() else 0
        message = torch.tensor([dist.stop_requested(), ahead], dtype=dtype)
        speaks = self._strategy.speaks  # losses of ranks that share their samples count once
        losses = [left[0].to(dtype) * speaks for _, left in waiting]
        shared = torch.stack([*to_device(message, self._device), *losses])
        own = [each.to(dtype) for _, left in waiting for each in left]
        numbers = torch.stack([*dist.sum_over_ranks(shared), *own]).tolist()
        stop, ahead, *sums = numbers[: len(shared)]
        self.asked_to_stop = stop > 0
        self._next_reading = self.progress.step + int(ahead)
        self._seconds = self.timer.times[len(self.timer.times) - len(waiting) :]
        rest = iter(numbers[len(shared) :])
        for (line, left), total, seconds in zip(waiting, sums, self._seconds, strict=True):
            self._write(line | {"seconds": seconds}, total, *itertools.islice(rest, len(left)))

    def _steps_ahead(self) -> int:
        """Return the number of steps until the next reading, based on the times just read."""
        if not self._seconds:
            return 1
        return max(1, min(READ_EVERY, int(READ_WITHIN / statistics.fmean(self._seconds))))

    def _write(
        self, line: dict[str, Any], total: float, own: float, count: float, *norm: float
    ) -> None:
        """Write the line of a step: its loss over all ranks, and this rank's own share of it."""
        step = line.pop("step")
        line |= {"count": int(count)} | ({"grad_norm": norm[0]} if norm else {})
        self.progress.loss, self._loss_step = total / max(1, line["count"]), step
        self._files.step(step, loss=self.progress.loss, **line)
        self._files.rank_step(step, loss_sum=own, seconds=line["seconds"])
        if not (math.isfinite(self.progress.loss) or line["skipped"]):
            raise DtlibError(
                f"the loss is {self.progress.loss} in step {step}, so the weights are lost; try"
                f" a lower lr than {self._strategy.config.lr}, a warm-up, or clip 1."
            )

    def evaluated(self, task: Task, figures: Mapping[str, Any]) -> None:
        """Record the results of an evaluation."""
        self.flush()
        self._held_out = (self.progress.step, figures[task.held_out_loss])
        self._files.evaluation(self.progress.step, **figures)

    @property
    def held_out_loss(self) -> float | None:
        """The held-out loss after the last step, if there was an evaluation after it."""
        step, loss = self._held_out
        return loss if step == self.progress.step else None

    def stopped(self) -> None:
        """Mark in the folder that the run should be resumed, and close the files."""
        self._files.requeue(self.progress.step)
        self._files.close()

    def finish(self, task: Task, figures: Mapping[str, Any], measured: Mapping[str, Any]) -> None:
        """Write the summary, including what the instruments measured."""
        if not dist.is_main():
            self._files.close()
            return
        timing = self.timer.columns(self._plan.global_batch * task.units_per_sample, task.unit)
        if timing["step_time_s"] is not None:
            timing["epoch_time_s"] = timing["step_time_s"] * task.steps_per_epoch(self._plan)
        progress = dataclasses.asdict(self.progress)
        summary = self._plan.columns() | {"parameters": self._strategy.parameters}
        summary |= {"steps": progress.pop("step"), **progress, "metric": figures[task.metric]}
        config = self._strategy.config
        summary["compile_mode"] = config.compile_mode if config.compile else None
        summary |= {"evaluation": {**figures, **task.extras()}, **timing}
        self._files.finish(summary | memory_columns(self._device) | dict(measured))


def loss_of(loss: float, of: int, step: int) -> dict[str, float]:
    """Label a loss for the progress line, with its step if it is an earlier one; empty if none."""
    if of == 0 or math.isnan(loss):
        return {}
    return {"loss" if of == step else f"loss of step {of}:": loss}
