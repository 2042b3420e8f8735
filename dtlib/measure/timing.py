"""Time and memory of a step, measured so that the numbers are what they claim to be."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtlib.errors import BadInput, counted

if TYPE_CHECKING:
    import torch

_MEMORY = ("memory_allocated_bytes", "memory_reserved_bytes", "memory_peak_bytes")


class StepTimer:
    """Time each step; the first `warmup` steps never enter a result.

    A device works through a queue, so a clock that is read before the queue is empty measures the
    launch and not the work. So either `synchronize` is called before each start and each stop, or
    the clock is the device's own and its marks are read later (`step_timer`).

    Parameters
    ----------
    warmup
        Steps at the start to leave out (allocation, compilation, cold caches).
    clock
        Returns a mark: seconds, or an event in the device's queue.
    synchronize
        Waits until the device is idle; see `synchronizer`.
    seconds
        Returns the seconds from one mark to another.
    """

    def __init__(
        self,
        warmup: int = 1,
        *,
        clock: Callable[[], Any] = time.perf_counter,
        synchronize: Callable[[], None] = lambda: None,
        seconds: Callable[[Any, Any], float] = lambda begin, end: end - begin,
    ) -> None:
        self.warmup = warmup
        self._clock, self._synchronize, self._seconds = clock, synchronize, seconds
        self._started: Any = None
        self._marks: list[tuple[Any, Any]] = []  # of steps whose time has not been read yet
        self._times: list[float] = []

    def start(self) -> None:
        """Wait for the device, then read the clock."""
        self._synchronize()
        self._started = self._clock()

    def stop(self) -> None:
        """Wait for the device, read the clock, and keep the step that began with `start`."""
        if self._started is None:
            raise RuntimeError("StepTimer.stop() was called before start()")
        self._synchronize()
        self._marks.append((self._started, self._clock()))
        self._started = None

    def __enter__(self) -> StepTimer:
        self.start()
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.stop()

    @property
    def times(self) -> list[float]:
        """Seconds of each step so far; with events, this waits until the device has done them."""
        self._times += [self._seconds(*marks) for marks in self._marks]
        self._marks.clear()
        return self._times

    @property
    def timed(self) -> list[float]:
        """Seconds of the steps after the warm-up."""
        return self.times[self.warmup :]

    def median(self) -> float:
        """Median seconds of a step after the warm-up.

        Raises `BadInput` when no step is left after the warm-up.
        """
        if not self.timed:
            raise BadInput(
                f"of {counted(len(self.times), 'step')}, the first {self.warmup} are warm-up, "
                f"which leaves none to time: run at least {counted(self.warmup + 1, 'step')}."
            )
        return statistics.median(self.timed)

    def columns(self, units_per_step: float, unit: str) -> dict[str, Any]:
        """The columns of the timing; `step_time_s` and `throughput` are None if no step was timed.

        `units_per_step` are samples or tokens of one *global* batch; a unit is, say, "tokens/s".
        """
        seconds = self.median() if self.timed else None
        return {
            "warmup_steps": min(self.warmup, len(self.times)),
            "timed_steps": len(self.timed),
            "step_time_s": seconds,
            "throughput": units_per_step / seconds if seconds else None,
            "throughput_unit": unit,
        }


def step_timer(warmup: int, device: torch.device, *, waits: bool = False) -> StepTimer:
    """Return the timer for a run's steps on a device; by default it does not wait for a GPU.

    Two events mark a step in a GPU's queue. They do not hold up the host, which fills the queue
    ahead, and they are read when the times are requested.

    Parameters
    ----------
    warmup
        As for `StepTimer`.
    waits
        Leave the device idle at both ends of each step, so that a step's work is inside the step.
    """
    if device.type != "cuda" or waits:
        return StepTimer(warmup, synchronize=synchronizer(device))
    import torch

    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
        return event

    def seconds(begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    return StepTimer(warmup, clock=mark, seconds=seconds)


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
