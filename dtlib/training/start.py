"""Where a run starts: it decides on world, plan and folder once, before the ranks start."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib import strategies
from dtlib.config import RUNS, RunConfig
from dtlib.config.mesh import Mesh
from dtlib.config.plan import BatchPlan
from dtlib.config.values import AUTO, refuse_long_warmup
from dtlib.errors import unusable
from dtlib.ranks import dist, launcher
from dtlib.ranks.foresee import foresee
from dtlib.training import micro_batch, oom, tasks
from dtlib.training.checkpoint.checkpointer import SAME_ON_RESUME, refuse_another_run
from dtlib.training.checkpoint.checkpoints import check_place
from dtlib.training.loop import choose_kernels, train_task
from dtlib.training.record import (
    Run,
    check_loggers,
    claimed,
    make_folder,
    new_folder,
    settings_of,
)


def train(task: str | RunConfig, ranks: int | None = None, **settings: Any) -> Run:
    """Train on `ranks` processes, and return the run with its results.

    The same call works in a notebook, in a script, and under torchrun or srun, where it joins the
    existing world.

    Parameters
    ----------
    task
        "images", "text", or a whole `RunConfig`.
    ranks
        Number of processes. Default: those of an existing world; otherwise 1 for `single`, those
        of the Slurm allocation, or 2.
    **settings
        Any field of `RunConfig`.

    Returns
    -------
    Run
        Folder, settings, summary and history; the weights are in the folder's last checkpoint.

    Raises
    ------
    BadInput, Unavailable
        When the settings can't be run, on this machine or at all.
    Stopped
        When a signal ended the run after a checkpoint was written.
    RankFailed
        When a rank failed; the error names it and says what the others were doing.
    """
    base = {"task": task} if isinstance(task, str) else dataclasses.asdict(task)
    given = settings if ranks is None else {**settings, "ranks": ranks}
    prepared = prepare(RunConfig.from_mapping({**base, **given}))
    config, world_size = prepared.config, prepared.plan.world_size
    options: dict[str, Any] = {"timeout": config.timeout, "device": config.device}
    options["threads"] = config.threads
    with prepared.claimed(), strategies.find(config.strategy).surroundings(config):
        while True:
            try:
                folders = launcher.launch(train_on_rank, prepared, ranks=world_size, **options)
                return Run.load(folders[0])
            except micro_batch.TooLarge as error:
                if launcher.world_that_is_there():  # another program started these ranks
                    raise
                prepared = dataclasses.replace(prepared, tried=(*prepared.tried, error.args[1]))


@dataclass(frozen=True)
class Prepared:
    """The decisions about a run that are made before its ranks start, and then sent to them.

    Attributes
    ----------
    config
        The settings. `out` is the run's folder; it is None only if existing ranks start a new run,
        because they agree on its folder once they are connected.
    plan
        How the global batch is cut, and over how many ranks.
    leads
        Whether this process writes the shared files: it starts the ranks, or it is the first one.
    tried
        Micro-batches that were too large in earlier launches of this run.
    """

    config: RunConfig
    plan: BatchPlan
    leads: bool
    tried: tuple[int, ...] = ()

    def claimed(self) -> contextlib.AbstractContextManager[None]:
        """Keep other runs out of the folder inside the block; one process does so for all ranks."""
        if self.config.out is None or not self.leads:
            return contextlib.nullcontext()
        return claimed(Path(self.config.out))

    def settled(self, world: dist.World) -> RunConfig:
        """Return the settings, completed by what only a rank knows: device defaults and folder."""
        config = self.config.resolved(world.device.type)
        if config.out is not None:
            return config
        new = dist.is_main() and _new_folder(config)
        return dataclasses.replace(config, out=dist.broadcast_object(str(new)))


def check(config: RunConfig) -> tuple[BatchPlan, launcher.Place | None]:
    """Refuse settings that can't be run; return the run's plan and its world.

    `check_data` reads the data separately, because the runs of a study often share them.

    Raises `BadInput` or `Unavailable` when the settings can't be run, on this machine or at all.
    """
    strategy = strategies.find(config.strategy)
    there = launcher.world_that_is_there(config.ranks)
    default = 1 if config.strategy == "single" else launcher.default_ranks()
    if config.mesh is not None:
        default = Mesh.of(config.mesh).size
    world_size = there.world_size if there else config.ranks or default
    strategy.check(config, world_size)
    task = tasks.find(config.task)
    task.check(config)
    plan = config.plan(world_size)
    strategy.check_plan(config, plan)
    return plan, there


def check_data(planned: Iterable[tuple[RunConfig, BatchPlan]]) -> None:
    """Refuse data and tokenizers that are unusable or too small, reading each of them once.

    Raises `BadInput`.
    """
    sizes: dict[tuple[Any, ...], int] = {}
    for config, plan in planned:
        task, text = tasks.find(config.task), (config.tokenizer, config.max_length, config.model)
        asked = (config.task, config.data, config.text_column, config.num_samples, *text)
        if asked not in sizes:
            sizes[asked] = task.check_data(config)
        task.refuse_few(sizes[asked], plan)
        if config.epochs:
            total = config.epochs * (sizes[asked] // plan.global_batch)
            refuse_long_warmup(config.warmup_steps, total)


def _refuse_another_run(config: RunConfig, plan: BatchPlan) -> None:
    """Refuse to resume another run before ranks start; the ranks look at the checkpoint itself."""
    folder = Path(config.out or "")
    saved = settings_of(folder)
    if any(folder.glob("checkpoints/step-*")) and saved.keys() >= set(SAME_ON_RESUME):
        kind, _ = foresee(plan.world_size, config.device)
        # the batch may have been left to the plan, which decides it as it did at the first start
        wanted = dataclasses.asdict(config.resolved(kind)) | plan.columns()
        refuse_another_run(folder, saved, wanted)


def prepare(config: RunConfig) -> Prepared:
    """Decide on a run's world, plan and folder, after refusing settings that can't be run.

    Raises `BadInput` or `Unavailable` like `check` and `check_data`, or when the folder can't hold
    the run.
    """
    plan, there = check(config)
    check_data([(config, plan)])
    config = micro_batch.kept(config, plan)
    plan = config.plan(plan.world_size)
    leads = not there or there.rank == 0
    check_loggers(config.tensorboard, config.wandb, writes=leads)
    if leads and config.checkpoints:
        check_place(config.checkpoints, resume=config.resume)
    make_folder(Path(config.out or RUNS), resume=config.resume)
    if config.resume:
        _refuse_another_run(config, plan)
    if config.out is None and not there:
        config = dataclasses.replace(config, out=str(_new_folder(config)))
    return Prepared(config, plan, leads)


def _new_folder(config: RunConfig) -> Path:
    return new_folder(Path(RUNS), f"{config.task}-{config.strategy}")


def train_on_rank(prepared: Prepared) -> str:
    """Train as one rank of this process's world, and return the run's folder.

    Raises `OutOfMemory` instead of torch's error when the device or the host is full, and
    `BadInput` for a file that this process may not read or write.
    """
    world, plan = dist.world(), prepared.plan
    config = prepared.settled(world)
    choose_kernels(config.deterministic)
    task = None
    try:
        if config.micro_batch == AUTO:
            plan = micro_batch.chosen(config, plan, world, prepared.tried)
        task = tasks.find(config.task)(config, world)
        dist.tell_devices(f"strategy {config.strategy}, records in {config.out}")
        return str(train_task(task, config, plan, world))
    except PermissionError as error:
        if error.filename is None:
            raise
        raise unusable(error) from error
    except RuntimeError as error:
        if not oom.is_out_of_memory(error):
            raise
        vocab_size = task.vocab_size if task else None
        raise oom.explained(error, config, plan, world, vocab_size) from error
