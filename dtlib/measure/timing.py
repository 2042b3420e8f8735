"""Time and memory of a step, measured so that the numbers mean what they say."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtlib.errors import BadInput

if TYPE_CHECKING:
    import torch

_MEMORY = ("memory_allocated_bytes", "memory_reserved_bytes", "memory_peak_bytes")


class StepTimer:
    """Time each step; the first `warmup` of them never enter a result.

    A device works through a queue, so a clock read before the queue is empty measures the launch
    and not the work: `synchronize` is called before each start and before each stop.

    Parameters
    ----------
    warmup
        Steps at the start to leave out (allocation, compilation, cold caches).
    clock
        Returns seconds; injected by tests.
    synchronize
        Waits until the device is idle; see `synchronizer`.
    """

    def __init__(
        self,
        warmup: int = 1,
        *,
        clock: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = lambda: None,
    ) -> None:
        self.warmup = warmup
        self.times: list[float] = []
        self._clock, self._synchronize = clock, synchronize
        self._started: float | None = None

    def start(self) -> None:
        """Wait for the device, then read the clock."""
        self._synchronize()
        self._started = self._clock()

    def stop(self) -> float:
        """Wait for the device, read the clock, keep and return the seconds since `start`."""
        if self._started is None:
            raise RuntimeError("StepTimer.stop() was called before start()")
        self._synchronize()
        seconds = self._clock() - self._started
        self._started = None
        self.times.append(seconds)
        return seconds

    def __enter__(self) -> StepTimer:
        self.start()
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.stop()

    @property
    def timed(self) -> list[float]:
        """Seconds of the steps after the warm-up."""
        return self.times[self.warmup :]

    def median(self) -> float:
        """Median seconds of a step after the warm-up.

        Raises `BadInput` when no step is left once the warm-up is taken away.
        """
        if not self.timed:
            raise BadInput(
                f"{len(self.times)} steps were run and the first {self.warmup} are warm-up, "
                f"which leaves none to time: run at least {self.warmup + 1} steps."
            )
        return statistics.median(self.timed)

    def columns(self, units_per_step: float, unit: str) -> dict[str, Any]:
        """The columns of the timing; `step_time_s` and `throughput` are None if no step was timed.

        `units_per_step` are samples or tokens of one *global* batch; a unit is "tokens/s", say.
        """
        seconds = self.median() if self.timed else None
        return {
            "warmup_steps": min(self.warmup, len(self.times)),
            "timed_steps": len(self.timed),
            "step_time_s": seconds,
            "throughput": units_per_step / seconds if seconds else None,
            "throughput_unit": unit,
        }


def synchronizer(device: torch.device) -> Callable[[], None]:
    """Return the function that waits until `device` has done all its work."""
    import torch

    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    if device.type == "mps":
        return torch.mps.synchronize
    return lambda: None


def memory_columns(device: torch.device) -> dict[str, int | None]:
    """Bytes that torch's allocator holds on this rank's GPU; None on a device that cannot tell."""
    if device.type != "cuda":
        return dict.fromkeys(_MEMORY)
    import torch

    return {
        "memory_allocated_bytes": torch.cuda.memory_allocated(device),
        "memory_reserved_bytes": torch.cuda.memory_reserved(device),
        "memory_peak_bytes": torch.cuda.max_memory_allocated(device),
    }
