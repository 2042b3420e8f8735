"""Record a few steps of a rank with torch.profiler: a bounded schedule, one trace per rank.

https://docs.pytorch.org/docs/stable/profiler.html
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from dtlib.errors import BadInput, counted, in_words
from dtlib.ranks import dist

T = TypeVar("T")
INPUT = "dtlib.input"
COMMUNICATION = "dtlib.communication"
_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def record(
    folder: str | Path, *, wait: int = 1, warmup: int = 1, active: int = 3, rank: int | None = None
) -> Iterator[Callable[[], None]]:
    """Profile the steps after `wait + warmup` and write `rank{r}.json` into a folder.

    Call the function that the block receives at the end of each step. Later steps are not recorded,
    which bounds the size of a trace: a profiler that never stops fills the memory.

    Parameters
    ----------
    folder
        Where the Chrome trace goes; created if necessary.
    wait, warmup, active
        Steps that are not profiled, that are profiled and discarded (the profiler's start-up
        costs), and that are kept.
    rank
        Number in the file's name; by default this process's rank, 0 without a process group.

    Raises
    ------
    BadInput
        When no step is to be kept, when the block ended before `active` steps were over, when
        another recording is running, or when no trace can be written to the folder.
    """
    if wait < 0 or warmup < 0 or active < 1:
        raise BadInput(
            f"wait, warmup and active are {wait}, {warmup} and {active}; the first two must be at"
            " least 0 and active at least 1."
        )
    path = Path(folder) / f"rank{dist.world().rank if rank is None else rank}.json"
    _make_room(path)
    # A process has only one torch profiler; starting a second one inside would end the process
    if not _one_at_a_time.acquire(blocking=False):
        raise BadInput("another recording is running in this process; end its block first.")
    try:
        with _schedule(path, wait, warmup, active) as step:
            yield step
    finally:
        _one_at_a_time.release()


@contextlib.contextmanager
def _schedule(path: Path, wait: int, warmup: int, active: int) -> Iterator[Callable[[], None]]:
    # Otherwise Kineto, which writes the trace, logs its start and end, and that it found no GPU
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    steps, needed = 0, wait + warmup + active

    def step() -> None:
        nonlocal steps
        steps += 1
        profiler.step()

    try:
        with profile(
            activities=activities,
            schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        ) as profiler:
            yield step
    finally:
        if steps < needed:
            path.unlink(missing_ok=True)  # it would have fewer steps than it claims
    if steps < needed:
        raise BadInput(
            f"{counted(steps, 'step')} ran, but wait {wait}, warmup {warmup} and active {active}"
            f" take {needed}: run more steps, or profile fewer."
        )


def _make_room(path: Path) -> None:
    """Create the folder, and remove an older trace, which could be mistaken for the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for older in (path, path.with_name(path.name + ".gz")):
            older.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"no trace can be written to {path.parent} ({in_words(error)}).") from None


def forget(folder: str | Path, ranks: int) -> None:
    """Remove an earlier run's traces, of ranks that are not among the first `ranks`."""
    for path in Path(folder).glob("rank*.json*"):
        number = path.name[len("rank") :].split(".")[0]
        if number.isdigit() and int(number) >= ranks:
            path.unlink(missing_ok=True)


class Recording:
    """What a training loop calls: `input_of(batches)` once, `step()` after every step."""

    def __init__(self, step: Callable[[], None] | None = None) -> None:
        self._step = step

    def input_of(self, batches: Iterable[T]) -> Iterator[T]:
        """Pass the batches on; if a profile is recorded, the wait for each is marked."""
        return iter(batches) if self._step is None else input_of(batches)

    def step(self) -> None:
        """Mark the end of a step."""
        if self._step is not None:
            self._step()


@contextlib.contextmanager
def recording(folder: str | Path | None) -> Iterator[Recording]:
    """Record into a folder as `record` does by default; without a folder, record nothing."""
    if folder is None:
        yield Recording()
        return
    with record(folder) as step:
        yield Recording(step)


def input_of(batches: Iterable[T]) -> Iterator[T]:
    """Pass on a loader's batches; the time until each one arrives is marked as input wait."""
    from torch.profiler import record_function

    source = iter(batches)
    while True:
        with record_function(INPUT):
            try:
                batch = next(source)
            except StopIteration:
                return
        yield batch


def communication() -> contextlib.AbstractContextManager[Any]:
    """Mark a block as communication that torch does not recognise, such as a simulated link."""
    from torch.profiler import record_function

    return record_function(COMMUNICATION)
