"""What the loop writes down while it trains: steps, evaluations, checkpoints, the summary.

It keeps the loop free of files and clocks. Its methods are called on every rank.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from dtlib.errors import BadInput, DtlibError, Stopped
from dtlib.measure import ledger
from dtlib.ranks import dist, launcher
from dtlib.strategies.precision import sums_dtype
from dtlib.training.checkpoint import (
    Checkpoints,
    refuse_other_model,
    restore_rng,
    rng_state,
    what_is_incomplete,
)
from dtlib.training.looks import Looks
from dtlib.training.record import Recorder, StepTimer, memory_columns, synchronizer

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.config.plan import BatchPlan
    from dtlib.measure.profiling import Recording, Steps
    from dtlib.ranks.dist import World
    from dtlib.strategies.base import StepResult, Strategy
    from dtlib.training.tasks.base import Task

FLUSH_EVERY = 10  # steps between two collections of the losses, which wait for the device
WATCHED = 3  # the step under the ledger: in the first two, frameworks still settle their buffers

# What a checkpoint's next step follows from; where these differ, going on is another experiment.
SAME_ON_RESUME = (
    "task", "model", "width", "norm", "data", "tokenizer", "max_length", "num_samples", "augment",
    "global_batch", "seed", "optimizer", "precision", "dropout",
)  # fmt: skip


@dataclass
class Progress:
    """How far a run is: steps taken, those of them that moved the weights, and the last loss."""

    step: int = 0
    optimizer_steps: int = 0
    skipped_steps: int = 0
    loss: float = math.nan


class Diary:
    """The records of one run on one rank, and where the run stands."""

    def __init__(self, config: RunConfig, plan: BatchPlan, world: World, total: int) -> None:
        self.config, self.plan, self.world, self.total = config, plan, world, total
        self.progress = Progress()
        assert config.out is not None  # `start` has decided it
        self.folder = Path(config.out)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")
        self._looks = Looks(config, world, self.folder)
        untimed = max(config.untimed_steps, WATCHED * config.ledger, self._looks.untimed)
        self.timer = StepTimer(untimed, synchronize=synchronizer(world.device))
        self._page: ledger.Page | None = None
        self._waiting: list[dict[str, Any]] = []
        self._saved_at = -1
        self._held_out = (-1, math.nan)  # the last evaluation: after which step, and its loss

    def open(self, strategy: Strategy) -> None:
        """Load the last complete checkpoint if the run is to go on, and open the record files."""
        self.parameters, self._framework = strategy.parameters, strategy.describe()
        loaded = self.checkpoints.latest() if self.config.resume else None
        if loaded is not None:
            self._refuse_another_run(loaded.shared["config"])
            state = loaded.shared["strategy"]
            refuse_other_model(strategy.shapes, state, loaded.path)
            strategy.load_state(state)
            self.progress = Progress(**loaded.shared["progress"])
            self._saved_at = self.progress.step
            if loaded.rank_state is not None:
                restore_rng(loaded.rank_state["rng"], self.world.device)
        step = loaded.step if loaded is not None else None
        if self.config.resume and dist.is_main():
            where = f"from {loaded.path.name}" if loaded else "since there is no checkpoint yet"
            print(f"Resuming {self.folder} after step {self.progress.step}, {where}.")
        self.recorder = Recorder(self.folder, self._settings(), self.world, resumed_from=step)

    def looking(self) -> contextlib.AbstractContextManager[tuple[Recording, Steps]]:
        """Around all steps: profile, mark and monitor what is wanted of those that are left."""
        return self._looks.around(self.total - self.progress.step)

    def watching(self, strategy: Strategy) -> contextlib.AbstractContextManager[Any]:
        """Around a step: measure its bytes if the ledger is wanted and this is the step for it."""
        taken = len(self.timer.times) + 1
        last = self.progress.step + 1 == self.total
        if not self.config.ledger or not (taken == WATCHED or (last and taken < WATCHED)):
            return contextlib.nullcontext()
        return self._watched(strategy)

    @contextlib.contextmanager
    def _watched(self, strategy: Strategy) -> Iterator[None]:
        with ledger.watch(strategy) as self._page:
            yield

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
        if self.due(FLUSH_EVERY) or self.progress.step == 1:
            self.flush()
        launcher.progress(self.progress.step, self.total, loss=self.progress.loss)

    def due(self, every: int | None) -> bool:
        """Tell whether something that happens every so many steps happens now."""
        return every is not None and self.progress.step % every == 0

    def flush(self) -> None:
        """Collect the losses of the waiting steps in one all_reduce, and write their lines."""
        if not self._waiting:
            return
        own = torch.stack([line.pop("loss_sum") for line in self._waiting])
        sums = dist.sum_over_ranks(own.to(sums_dtype(self.world.device), copy=True)).tolist()
        for line, mine, total in zip(self._waiting, own.tolist(), sums, strict=True):
            step, seconds = line.pop("step"), line["seconds"]
            line["count"] = int(line["count"])
            self.progress.loss = total / max(1, line["count"])
            self.recorder.step(step, loss=self.progress.loss, **line)
            self.recorder.rank_step(step, loss_sum=mine, seconds=seconds)
            if not (math.isfinite(self.progress.loss) or line["skipped"]):
                raise DtlibError(
                    f"the loss is {self.progress.loss} in step {step}, so the weights are lost; try"
                    f" a lower lr than {self.config.lr}, a warm-up, or clip 1."
                )
        self._waiting.clear()

    def evaluated(self, task: Task, figures: Mapping[str, Any]) -> None:
        """Note what an evaluation found."""
        self.flush()
        self._held_out = (self.progress.step, figures[task.held_out_loss])
        self.recorder.evaluation(self.progress.step, **figures)

    def save(self, strategy: Strategy) -> None:
        """Write a checkpoint of this step, unless there is one; the best evaluated one is kept."""
        self.flush()
        if self._saved_at == self.progress.step:
            return
        state = strategy.state()
        wrong = dist.broadcast_object(what_is_incomplete(strategy.shapes, state))
        if wrong:
            raise DtlibError(f"no checkpoint of step {self.progress.step} was written: {wrong}.")
        shared = {
            "strategy": state,
            "progress": dataclasses.asdict(self.progress),
            "config": self._settings(),
        }
        own = {"rng": rng_state(self.world.device)}
        evaluated_at, loss = self._held_out
        metric = loss if evaluated_at == self.progress.step else None
        self.checkpoints.save(self.progress.step, shared, own, metric)
        self._saved_at = self.progress.step

    def stopped(self, strategy: Strategy) -> NoReturn:
        """Save what there is, ask to be started again, and end the run."""
        self.save(strategy)
        self.recorder.requeue(self.progress.step)
        self.recorder.close()
        dist.barrier()  # no rank may leave, and be taken for failed, before the files are there
        raise Stopped(
            f"stopped after step {self.progress.step} of {self.total} with a checkpoint in"
            f" {self.folder}; run it again with --resume to go on."
        )

    def finish(self, task: Task, figures: Mapping[str, Any]) -> None:
        """Write the summary."""
        pages = dist.gather_objects(self._page.to_dict()) if self._page else []
        seen = self._looks.columns()
        if not dist.is_main():
            self.recorder.close()
            return
        timing = self.timer.columns(self.plan.global_batch * task.units_per_sample, task.unit)
        if timing["step_time_s"] is not None:
            timing["epoch_time_s"] = timing["step_time_s"] * task.steps_per_epoch(self.plan)
        progress = dataclasses.asdict(self.progress)
        self.recorder.finish(
            {
                **dataclasses.asdict(self.plan),
                "parameters": self.parameters,
                "steps": progress.pop("step"),
                **progress,
                "metric": figures[task.metric],
                "evaluation": {**figures, **task.extras()},
                **timing,
                **memory_columns(self.world.device),
                **_ledger_columns(pages, self.world.device.type),
                **seen,
            }
        )

    def _settings(self) -> dict[str, Any]:
        told = {"framework": self._framework} if self._framework else {}
        return {**dataclasses.asdict(self.config), **dataclasses.asdict(self.plan), **told}

    def _refuse_another_run(self, saved: Mapping[str, Any]) -> None:
        for key in SAME_ON_RESUME:
            then, now = saved[key], self._settings()[key]
            if then != now:
                kind = "another model's" if key == "model" else "another run's"
                raise BadInput(
                    f"the checkpoint in {self.folder} is {kind}: {key} was {then} and is now {now};"
                    " resume with the settings in its config.json, or choose another out."
                )


def _ledger_columns(pages: list[dict[str, Any]], device: str) -> dict[str, Any]:
    """What the summary has of the ledger: all pages by rank, and rank 0's columns of the table."""
    if not pages:
        return {}
    found = {"ledger": pages, "payload_bytes_per_step": pages[0]["payload"]}
    if device == "cuda":  # its allocator has told more exactly, and of more steps
        return found
    held = sum(pages[0]["between_steps"].values())
    return {**found, "memory_allocated_bytes": held, "memory_peak_bytes": pages[0]["peak"]}
