"""NVTX ranges around the parts of a step, and a capture that begins and ends on the same steps.

NVIDIA's tools show a range beside the kernels that were started in it, and on request record only
between `cudaProfilerStart` and `cudaProfilerStop`. Without such a request `mark` does nothing.

https://docs.nvidia.com/nvtx/ ; https://docs.pytorch.org/docs/stable/cuda.html#nvidia-tools-extension-nvtx
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_in_use: Nvtx | None = None


class Nvtx:
    """torch's NVTX and CUDA's profiler switch."""

    def __init__(self) -> None:
        import torch

        self._cuda: Any = torch.cuda

    def push(self, name: str) -> None:
        self._cuda.nvtx.range_push(name)

    def pop(self) -> None:
        self._cuda.nvtx.range_pop()

    def start(self) -> None:
        self._cuda.profiler.start()

    def stop(self) -> None:
        self._cuda.profiler.stop()


def nvtx() -> Nvtx | None:
    """Return torch's NVTX, or None if this machine has no CUDA to mark."""
    import torch

    return Nvtx() if torch.cuda.is_available() else None


class Steps:
    """Counts a rank's steps, marks each, and captures those from `first` to `last`.

    Every rank counts from its own start and all start at the same step, so the numbers alone put
    the capture on the same steps everywhere: ranks need not agree on anything during the run.
    """

    def __init__(self, first: int, last: int, tool: Nvtx | None) -> None:
        self.first, self.last, self._tool = first, last, tool
        self._taken = 0
        self._capturing = False

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Use around one whole step, with the device idle at both ends."""
        self._taken += 1
        if self._tool and self._taken == self.first:
            self._tool.start()
            self._capturing = True
        with mark("step"):
            yield
        if self._taken == self.last:
            self._stop()

    def _stop(self) -> None:
        if self._tool and self._capturing:
            self._capturing = False
            self._tool.stop()


@contextlib.contextmanager
def marked(first: int, last: int, tool: Nvtx | None) -> Iterator[Steps]:
    """Let `mark` reach a tool while the block runs, and capture its steps `first` to `last`.

    Parameters
    ----------
    first, last
        Steps counted from 1 at the start of the block.
    tool
        `nvtx()`, or None: then nothing is marked and nothing captured.
    """
    global _in_use
    steps = Steps(first, last, tool)
    before, _in_use = _in_use, tool
    try:
        yield steps
    finally:
        steps._stop()  # a run that ends early leaves a capture that can be read
        _in_use = before


@contextlib.contextmanager
def _range(tool: Nvtx, name: str) -> Iterator[None]:
    tool.push(name)
    try:
        yield
    finally:
        tool.pop()


def mark(name: str) -> contextlib.AbstractContextManager[None]:
    """Use around a part of a step: a range of that name, if ranges are requested."""
    return contextlib.nullcontext() if _in_use is None else _range(_in_use, name)
