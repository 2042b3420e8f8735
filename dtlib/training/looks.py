"""What a run looks at beside its losses, where it is asked to: a profile, NVTX ranges, a monitor.

Called on every rank.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.measure import profiling
from dtlib.ranks import dist

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.ranks.dist import World

PROFILE = "profile"  # the folder of the traces, in the run's
PROFILED = 5  # one step left alone, one for the profiler to warm up, three that are kept


class Looks:
    """Looks at one rank's steps, and tells the summary what it saw."""

    def __init__(self, config: RunConfig, world: World, folder: Path) -> None:
        self.config, self.world, self.folder = config, world, folder
        self._profiled = False
        self._gpu_util: float | None = None

    @property
    def untimed(self) -> int:
        """The steps that are slowed by being looked at: they enter no timing."""
        return max(PROFILED * self.config.profile, self.config.nvtx_last * self.config.nvtx)

    @contextlib.contextmanager
    def around(self, left: int) -> Iterator[tuple[profiling.Recording, profiling.Steps]]:
        """Around all steps, of which so many are left."""
        with self._profile(left) as recording, self._monitored(), self._marked(left) as steps:
            yield recording, steps

    def _profile(self, left: int) -> contextlib.AbstractContextManager[profiling.Recording]:
        self._profiled = self.config.profile and left >= PROFILED
        folder = self.folder / PROFILE
        if self._profiled and dist.is_main():  # of ranks that an earlier run had, and this has not
            profiling.forget(folder, self.world.world_size)
        return profiling.recording(folder if self._profiled else None)

    def _marked(self, left: int) -> contextlib.AbstractContextManager[profiling.Steps]:
        config = self.config
        tool = profiling.nvtx() if config.nvtx else None
        if config.nvtx and tool is None and dist.is_main():
            print("No NVTX ranges: there is no CUDA here for a profiler to look at.")
        elif tool is not None and left < config.nvtx_first and dist.is_main():
            print(f"Nothing is captured: nvtx_first is {config.nvtx_first} of {left} steps left.")
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
        """What the summary has of it: all ranks' shares and the verdict, the GPUs' mean use."""
        found = self._profile_columns() if dist.is_main() else {}
        if self.config.monitor:
            used = [value for value in dist.gather_objects(self._gpu_util) if value is not None]
            found |= {"gpu_util": statistics.fmean(used)} if used else {}
        return found

    def _profile_columns(self) -> dict[str, Any]:
        if not self.config.profile:
            return {}
        if not self._profiled:  # traces that are there are an earlier run's
            print(f"No profile: it takes {PROFILED} steps, and fewer were left.")
            return {}
        shares = profiling.shares(profiling.read(self.folder / PROFILE))
        verdict = profiling.verdict(shares)
        print(verdict)
        return {
            "profile": {
                "shares": [dataclasses.asdict(one) for one in shares],
                "verdict": str(verdict),
            },
            "comm_share": shares[0].communication,
            "data_share": shares[0].input,
        }
