"""The most bytes that were allocated at once in a step, according to torch's allocators."""

from __future__ import annotations

from typing import Any

import torch


class Allocations:
    """Follow the allocator of a device while a `with` block runs.

    On a GPU the caching allocator knows its own peak. On a CPU there is no such statistic, so
    torch's profiler records every allocation of this thread: the small legacy profiler, since the
    new one writes to stderr.

    Attributes
    ----------
    base
        Bytes allocated when the block began; None on a CPU, where only changes are visible.
    rise
        The most that was added to that; None if it could not be measured.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.base: int | None = None
        self.rise: int | None = None
        self._profiling = False

    def __enter__(self) -> Allocations:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            self.base = torch.cuda.memory_allocated(self.device)
        elif self.device.type == "cpu":
            self._profiling = _start()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.base is not None:
            torch.cuda.synchronize(self.device)
            self.rise = torch.cuda.max_memory_allocated(self.device) - self.base
        elif self._profiling:
            self.rise = _most(torch.autograd._disable_profiler_legacy())


def _start() -> bool:
    """Start the profiler; False if there is none, or if one is running (it cannot be nested)."""
    autograd: Any = torch.autograd
    if not hasattr(autograd, "_enable_profiler_legacy") or autograd._profiler_enabled():
        return False
    settings = autograd.ProfilerConfig(
        autograd.ProfilerState.CPU, False, True, False, False, False,
        torch._C._profiler._ExperimentalConfig(),
    )  # fmt: skip
    autograd._enable_profiler_legacy(settings)
    return True


def _most(records: Any) -> int:
    """Return the highest sum of the allocations and releases so far."""
    most = now = 0
    for event in (event for thread in records for event in thread):
        if event.kind() == "memory_alloc":  # a release has a negative size
            now += event.cpu_memory_usage()
            most = max(most, now)
    return most
