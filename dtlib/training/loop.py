"""The training loop, the one place where tasks, strategies and records meet.

for each global batch
    sum over the ranks how many samples count
    for each micro-batch of this rank (`Strategy.accumulate`)
        forward, backward: add its share to the gradient of the global mean
    clip, step, record the loss; evaluate and save when due

No step reads a number from the device, because that would make the device wait for the host. The
recorder reads every few steps, and then it also learns whether any rank was asked to stop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import torch

from dtlib import strategies
from dtlib.config import RunConfig
from dtlib.config.plan import BatchPlan
from dtlib.data.batches import seed_of
from dtlib.errors import Stopped
from dtlib.measure.profiling import mark
from dtlib.ranks import dist
from dtlib.strategies.base import Strategy
from dtlib.strategies.optim import learning_rate, make_optimizer
from dtlib.strategies.precision import sums_dtype
from dtlib.training.checkpoint import Checkpointer
from dtlib.training.instruments import Instruments
from dtlib.training.recorder import Recorder
from dtlib.training.tasks.base import Batch, Task


def train_task(task: Task, config: RunConfig, plan: BatchPlan, world: dist.World) -> Path:
    """Take all steps of a run as one of its ranks, record them, and return the run's folder."""
    assert config.out is not None  # `start` sets it
    folder = Path(config.out)
    total = config.steps or (config.epochs or 1) * task.steps_per_epoch(plan)
    with contextlib.closing(strategies.find(config.strategy)(config, world, plan)) as strategy:
        strategy.prepare(task.model, functools.partial(make_optimizer, config))
        settings = dataclasses.asdict(config) | plan.columns()
        if task.vocab_size:  # a text task
            settings["chunked_loss"] = task.is_chunked(plan.micro_batch * task.units_per_sample)
        if told := strategy.describe():
            settings["framework"] = told
        instruments = Instruments(config, world, folder)
        checkpointer = Checkpointer(folder, strategy, settings)
        progress = checkpointer.resume() if config.resume else None
        timer = instruments.timer()
        recorder = Recorder(folder, settings, strategy, total, timer, progress=progress)
        take_steps(task, strategy, recorder, checkpointer, instruments)
        figures = task.evaluate(strategy)
        recorder.evaluated(task, figures)
        if config.checkpoint_every == 0:  # a run that is asked to stop still writes one
            recorder.flush()
        else:
            save(checkpointer, recorder)
        recorder.finish(task, figures, instruments.columns())
    return folder


def take_steps(
    task: Task,
    strategy: Strategy,
    recorder: Recorder,
    checkpointer: Checkpointer,
    instruments: Instruments,
) -> None:
    """Take the remaining steps of the run, with evaluations and checkpoints between them.

    Raises `Stopped` when a rank was asked to stop, after writing a checkpoint.
    """
    config, progress, total = strategy.config, recorder.progress, recorder.total
    with instruments.around(left=total - progress.step) as (profile, marked):
        batches = profile.input_of(task.steps(strategy.plan, first=progress.step))
        recorder.read()  # from here on, the run responds to signals
        while progress.step < total:
            if recorder.asked_to_stop:
                end_early(checkpointer, recorder)
            recorder.timer.start()
            with marked.step():
                with mark("data"):
                    micro_batches = next(batches)
                with instruments.around_step(strategy):
                    count = global_count(task, strategy, micro_batches)
                    seed_dropout(strategy, progress.step)
                    loss_sum = strategy.accumulate(task, micro_batches, count)
                    # the schedule counts only steps that move the weights
                    lr = learning_rate(config, progress.optimizer_steps, total)
                    with mark("optimizer"):
                        result = strategy.step(lr)
                recorder.step(result, lr, loss_sum, count)
            profile.step()

            if progress.step < total:  # the end has an evaluation and a checkpoint of its own
                if progress.due(config.eval_every):
                    recorder.evaluated(task, task.evaluate(strategy))
                if progress.due(config.checkpoint_every):
                    save(checkpointer, recorder)


def save(checkpointer: Checkpointer, recorder: Recorder) -> None:
    """Write a checkpoint of this step, after checking that its losses are finite."""
    recorder.flush()
    checkpointer.save(recorder.progress, recorder.held_out_loss)


def end_early(checkpointer: Checkpointer, recorder: Recorder) -> NoReturn:
    """Write a checkpoint, mark the run to be resumed, and end it."""
    save(checkpointer, recorder)
    recorder.stopped()
    dist.barrier()  # a rank that left before the files are written would look like a failed one
    raise Stopped(
        f"stopped after step {recorder.progress.step} of {recorder.total} with a checkpoint in"
        f" {recorder.folder}; start it again to resume it (`dtlib train` with --resume)."
    )


def seed_dropout(strategy: Strategy, step: int) -> None:
    """Seed this step's dropout from the run's seed, the rank's data coordinate and the step.

    Ranks that share their samples start from one seed, so they drop the same of what each of them
    computes whole; a strategy that slices activations draws the masks of slices from seeds of its
    own.
    """
    if strategy.config.dropout:
        seed = strategy.config.seed
        torch.manual_seed(seed_of("dropout", seed, strategy.data_rank, step))


def global_count(task: Task, strategy: Strategy, micro_batches: Sequence[Batch]) -> torch.Tensor:
    """Return how many samples of the global batch count (0-d, on the device), each once."""
    count = torch.stack([task.count(labels) for _, labels in micro_batches]).sum()
    with mark("communication"):
        return dist.sum_over_ranks(count.to(sums_dtype(count.device)), strategy.speaks)


def choose_kernels(deterministic: bool) -> None:
    """Choose the fastest kernels, or only those that give the same bits every time."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it for the same bits
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic
