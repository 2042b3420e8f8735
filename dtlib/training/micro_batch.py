"""`--micro-batch auto`: the largest micro-batch that the formulas predict, checked by a trial.

The global batch stays the same: a smaller micro-batch means more accumulation. All ranks use the
micro-batch of the rank that has the least room. A trial trains a model that is then discarded,
so the run gives the same bits as one that was started with this micro-batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import torch

from dtlib import strategies
from dtlib.config import RunConfig
from dtlib.config.plan import BatchPlan
from dtlib.config.values import AUTO
from dtlib.errors import DtlibError
from dtlib.ranks import dist
from dtlib.sim import fitting, states
from dtlib.strategies.optim import make_optimizer
from dtlib.training import oom, tasks
from dtlib.training.loop import global_count
from dtlib.training.record import settings_of

if TYPE_CHECKING:
    from dtlib.strategies.base import Strategy
    from dtlib.training.tasks.base import Batch, Task

STEPS, MOST = 2, 20  # steps that move the weights (the second has the optimizer's state); tries
LATE = 10.0  # seconds after which ranks that do not run out of memory, too, wait for this one


class TooLarge(oom.OutOfMemory):
    """Only some ranks had no room in a trial; its arguments are a sentence and the micro-batch."""

    def __str__(self) -> str:
        return self.args[0]


def kept(config: RunConfig, plan: BatchPlan) -> RunConfig:
    """Return the settings of a resumed run, with the micro-batch that its first start chose."""
    if config.micro_batch != AUTO or not config.resume:
        return config
    before = settings_of(Path(config.out or "")).get("micro_batch")
    if isinstance(before, int) and before > 0 and plan.micro_batch % before == 0:
        return dataclasses.replace(config, micro_batch=before)
    return config


def chosen(
    config: RunConfig, plan: BatchPlan, world: dist.World, tried: Sequence[int] = ()
) -> BatchPlan:
    """Return the plan with the largest micro-batch that fits on every rank, and say why.

    `plan` has the largest possible one, without accumulation; those that earlier launches `tried`
    are too large. Every rank calls this. Raises `TooLarge` when it takes a new launch to try a
    smaller one.
    """
    task = tasks.find(config.task)(config, world)  # its data are already on the device
    vocab_size = task.vocab_size
    micro, why = predicted(config, plan, world, vocab_size)
    del task
    if tried:
        micro = min(micro, smaller(plan, tried[-1]))
    failed = [*tried]
    while True:
        found = dataclasses.replace(plan, micro_batch=micro, accumulation=plan.micro_batch // micro)
        strategies.find(config.strategy).check_plan(config, found)
        try:
            proved = is_proved(tasks.find(config.task)(config, world), config, found, world)
        except RuntimeError as error:
            if micro == 1 or not oom.is_out_of_memory(error):
                raise
            said = oom.explained(error, config, found, world, vocab_size)
            again = f"start again with --micro-batch {smaller(plan, micro)}"
            raise TooLarge(f"micro-batch {micro} is too large; {again}: {said}", micro) from error
        gc.collect()
        if world.device.type == "cuda":
            torch.cuda.empty_cache()
        if proved or micro == 1:  # if 1 doesn't fit either, the run itself reports it
            break
        failed.append(micro)
        micro = smaller(plan, micro)
    if dist.is_main():
        less = f"; {' and '.join(map(str, failed))} ran out of memory" if failed else ""
        trial = f"and a {STEPS}-step trial fits" if proved else "but a trial ran out of memory"
        print(f"micro-batch {micro} × accumulation {found.accumulation}: {why}{less}, {trial}.")
    return found


def smaller(plan: BatchPlan, micro: int) -> int:
    """Return the next smaller micro-batch that divides a rank's share of the global batch."""
    return next(n for n in range(micro - 1, 0, -1) if plan.micro_batch % n == 0)


def predicted(
    config: RunConfig, plan: BatchPlan, world: dist.World, vocab_size: int | None
) -> tuple[int, str]:
    """Return the micro-batch that should fit on every rank, and a sentence with the numbers."""
    setup = oom.setup_of(config, plan, vocab_size)
    if setup is None:
        return plan.micro_batch, "the ledger does not know this model"
    room = min(dist.gather_objects(free(world)))
    way = fitting.largest(setup, room * (1 - fitting.SPARE))
    said = f"the ledger predicts {oom.in_gib(way.peak)} of {oom.in_gib(room)}"
    return way.setup.micro_batch, said


def free(world: dist.World) -> float:
    """Bytes that a rank can still use: free GPU memory, or its share of this machine's memory."""
    if world.device.type == "cuda":
        return float(torch.cuda.mem_get_info(world.device)[0])
    return psutil.virtual_memory().available / world.local_world_size


def is_proved(task: Task, config: RunConfig, plan: BatchPlan, world: dist.World) -> bool:
    """Train for a few steps, of two micro-batches at most, and tell whether all ranks had room."""
    strategy = strategies.find(config.strategy)(config, world, plan)
    micro_batches = next(task.steps(plan, first=0))[:2]
    with contextlib.closing(strategy):
        strategy.prepare(task.model, functools.partial(make_optimizer, config))
        trials = _trials(task, strategy, micro_batches)
        return all(_has_room(trial, config.timeout) for trial in trials)


def _trials(
    task: Task, strategy: Strategy, micro_batches: list[Batch]
) -> Iterator[Callable[[], None]]:
    """Yield local work first, so that a rank without room doesn't leave the others waiting."""
    config = strategy.config
    whole = states.DIVIDED.get(states.ALIASES.get(config.strategy, config.strategy)) in ("", "o")
    if whole and not config.static_graph and strategy.plan.mesh.tensor == 1:
        yield lambda: _alone(task, strategy, micro_batches[0])

    def steps() -> None:
        for _ in range(MOST):  # fp16 skips some at first
            count = global_count(task, strategy, micro_batches)
            strategy.accumulate(task, micro_batches, count)
            strategy.step(config.lr or 0.0)
            if strategy.steps == STEPS:
                return

    yield steps


def _alone(task: Task, strategy: Strategy, batch: Batch) -> None:
    """Run forward and backward without communication."""
    with strategy.micro_step(last=False):
        with strategy.autocast():
            loss_sum = strategy.loss(task, *batch)
        strategy.backward(loss_sum, task.count(batch[1]))


def _has_room(trial: Callable[[], None], timeout: float) -> bool:
    """Tell whether no rank ran out of memory; raise this rank's error if the others wait for it."""
    lost = None
    try:
        trial()
    except RuntimeError as error:
        if not oom.is_out_of_memory(error):
            raise
        lost = error
    verdicts = dist.told_by_all(str(lost is None), timeout if lost is None else LATE)
    if verdicts is None:
        raise lost or DtlibError(f"a rank did not end its trial of memory within {timeout:g} s.")
    return all(verdict == "True" for verdict in verdicts)
