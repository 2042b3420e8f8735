"""What a run measures besides its losses, on request: ledger, profile, ranges, monitor.

Every rank calls them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.errors import counted
from dtlib.measure import ledger, profiling
from dtlib.measure.timing import StepTimer, step_timer
from dtlib.ranks import dist

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.ranks.dist import World
    from dtlib.strategies.base import Strategy

PROFILE = "profile"  # the folder of the traces, inside the run's folder
PROFILED = 5  # one step unprofiled, one to warm the profiler up, three that it records
WATCHED = 3  # the step that the ledger watches: in the first two, frameworks still set up buffers


def untimed_steps(config: RunConfig) -> int:
    """Return how many first steps aren't timed: those asked for, or those that measuring slows."""
    nvtx = config.nvtx_last * config.nvtx
    return max(config.untimed_steps, WATCHED * config.ledger, PROFILED * config.profile, nvtx)


class Instruments:
    """Measure one rank's steps, and return the results for the summary."""

    def __init__(self, config: RunConfig, world: World, folder: Path) -> None:
        self.config, self.world, self.folder = config, world, folder
        self._left = self._begun = 0
        self._page: ledger.Page | None = None
        self._profiled = False
        self._gpu_util: float | None = None

    def timer(self) -> StepTimer:
        """Return the clock of the steps; for a trace, it waits for the device around each step."""
        waits = self.config.profile or self.config.nvtx
        return step_timer(untimed_steps(self.config), self.world.device, waits=waits)

    @contextlib.contextmanager
    def around(self, left: int) -> Iterator[tuple[profiling.Recording, profiling.Steps]]:
        """Profile, mark and monitor all steps; `left` is how many the run still has to take."""
        self._left = left
        with self._profile(left) as recording, self._monitored(), self._marked(left) as steps:
            yield recording, steps

    def around_step(self, strategy: Strategy) -> contextlib.AbstractContextManager[None]:
        """Go around each step, and measure the bytes of one of them if the ledger is on."""
        self._begun += 1
        if self.config.ledger and self._begun == min(WATCHED, self._left):
            return self._watched(strategy)
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _watched(self, strategy: Strategy) -> Iterator[None]:
        with ledger.watch(strategy) as self._page:
            yield

    def _profile(self, left: int) -> contextlib.AbstractContextManager[profiling.Recording]:
        self._profiled = self.config.profile and left >= PROFILED
        folder = self.folder / PROFILE
        if self._profiled and dist.is_main():  # traces of ranks that only an earlier run had
            profiling.forget(folder, self.world.world_size)
        return profiling.recording(folder if self._profiled else None)

    def _marked(self, left: int) -> contextlib.AbstractContextManager[profiling.Steps]:
        config = self.config
        tool = profiling.nvtx() if config.nvtx else None
        if config.nvtx and tool is None and dist.is_main():
            print("No NVTX ranges: this machine has no CUDA device to profile.")
        elif tool is not None and left < config.nvtx_first and dist.is_main():
            first = config.nvtx_first
            print(f"Nothing is captured: nvtx_first is {first}, with {counted(left, 'step')} left.")
        return profiling.marked(config.nvtx_first, config.nvtx_last, tool)

    @contextlib.contextmanager
    def _monitored(self) -> Iterator[None]:
        if not self.config.monitor:
            yield
            return
        path = self.folder / f"monitor.rank{self.world.rank}.csv"
        with profiling.Monitor(path, self.world.device, append=self.config.resume) as monitor:
            if monitor.missing and dist.is_main():
                print(monitor.missing)
            yield
        self._gpu_util = monitor.mean("gpu_util")

    def columns(self) -> dict[str, Any]:
        """Columns for the summary; on rank 0, they hold the figures of all ranks."""
        pages = dist.gather_objects(self._page.to_dict()) if self._page else []
        found = _ledger_columns(pages, self.world.device.type)
        if dist.is_main():
            found |= self._profile_columns()
        if self.config.monitor:
            used = [value for value in dist.gather_objects(self._gpu_util) if value is not None]
            found |= {"gpu_util": statistics.fmean(used)} if used else {}
        return found

    def _profile_columns(self) -> dict[str, Any]:
        if not self.config.profile:
            return {}
        if not self._profiled:  # any traces in the folder are from an earlier run
            print(f"No profile: profiling takes {PROFILED} steps, and fewer were left.")
            return {}
        shares = profiling.shares(profiling.read(self.folder / PROFILE))
        verdict = profiling.verdict(shares)
        print(verdict)
        told = {"shares": [dataclasses.asdict(one) for one in shares], "verdict": str(verdict)}
        first = shares[0]
        return {"profile": told, "comm_share": first.communication, "data_share": first.input}


def _ledger_columns(pages: list[dict[str, Any]], device: str) -> dict[str, Any]:
    """The ledger's part of the summary: all pages by rank, and rank 0's columns of the table."""
    if not pages:
        return {}
    found = {"ledger": pages, "payload_bytes_per_step": pages[0]["payload"]}
    if device == "cuda":  # its allocator gives more exact numbers, for more steps
        return found
    held = sum(pages[0]["between_steps"].values())
    return {**found, "memory_allocated_bytes": held, "memory_peak_bytes": pages[0]["peak"]}
