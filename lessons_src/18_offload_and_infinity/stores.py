"""Adam's state in another place than the step, reached only through a small window."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.optim.adamw import adamw as torchs

KINDS = ("master", "first", "second")
RATE, BETAS, EPSILON, DECAY = 1e-2, (0.9, 0.999), 1e-8, 0.1


class Call(NamedTuple):
    """One read or write: "read" or "write", what, which elements, and seconds since the start."""

    verb: str
    kind: str
    start: int
    stop: int
    begin: float
    end: float


class TooWide(ValueError):
    """A chunk does not fit into the window."""


class Host:
    """Master weights and Adam's two moments, in fp32, in memory or in files.

    Parameters
    ----------
    weights
        The weights to begin with; the master is their fp32 copy, the moments are 0.
    window
        Elements of the buffer that each kind is read into.
    folder
        Where the files go; None keeps the state in memory.

    Attributes
    ----------
    calls
        Every read and write, in order.
    """

    def __init__(self, weights: torch.Tensor, window: int, folder: Path | None = None) -> None:
        self.window = window
        self.calls: list[Call] = []
        begin = {"master": weights.float()}
        self._state = {}
        for kind in KINDS:
            place = None if folder is None else folder / f"{kind}.bin"
            self._state[kind] = _stored(begin.get(kind, torch.zeros(len(weights))), place)
        self._buffers = {kind: torch.zeros(window) for kind in KINDS}

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """The whole state by kind, for comparison; a step uses `read` and `write`."""
        return self._state

    def read(self, kind: str, start: int, stop: int) -> torch.Tensor:
        """Copy elements `start` to `stop` into the buffer of their kind, and return that part.

        The next read of this kind overwrites it.

        Raises
        ------
        TooWide
            When they are more than the window holds.
        """
        if stop - start > self.window:
            raise TooWide(f"{stop - start} elements of {kind}; the window holds {self.window}")
        begin = time.perf_counter()
        part = self._buffers[kind][: max(0, stop - start)]
        part.copy_(self._state[kind][start:stop])
        self._log("read", kind, start, stop, begin)
        return part

    def write(self, kind: str, start: int, values: torch.Tensor) -> None:
        """Copy `values` to the elements from `start` on."""
        begin = time.perf_counter()
        self._state[kind][start : start + len(values)].copy_(values)
        self._log("write", kind, start, start + len(values), begin)

    def moved(self, verb: str) -> int:
        """Bytes of all reads, or of all writes, so far."""
        return sum(4 * (call.stop - call.start) for call in self.calls if call.verb == verb)

    def _log(self, verb: str, kind: str, start: int, stop: int, begin: float) -> None:
        self.calls.append(Call(verb, kind, start, stop, begin, time.perf_counter()))


def _stored(tensor: torch.Tensor, file: Path | None) -> torch.Tensor:
    """A copy of a tensor, in memory or in a file that is mapped into memory."""
    if file is None:
        return tensor.clone()
    mapped = torch.from_file(str(file), shared=True, size=len(tensor), dtype=tensor.dtype)
    return mapped.copy_(tensor)


def adamw(
    master: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor,
    step: int,
) -> None:  # fmt: skip
    """Torch's AdamW on tensors of equal length; changes `master`, `first` and `second` in place.

    Parameters
    ----------
    gradient
        In any precision; the other three are fp32.
    step
        The number of this step, 1 for the first.
    """
    torchs(
        [master], [gradient.float()], [first], [second], [], [torch.tensor(float(step - 1))],
        foreach=False, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=RATE,
        weight_decay=DECAY, eps=EPSILON, maximize=False,
    )  # fmt: skip


def train_both(
    step: Callable[..., None], elements: int, window: int, folder: Path, steps: int
) -> tuple[torch.Tensor, dict[str, Host]]:
    """Take steps with the state in memory and in files, and beside them with torch's AdamW.

    Returns
    -------
    twin
        The fp32 weights of torch's AdamW, which has all elements at once.
    hosts
        "memory" and "files". The files are gone when their folder is; what was read stays.
    """
    dice = torch.Generator().manual_seed(0)
    begin = torch.randn(elements, generator=dice).bfloat16()
    twin = torch.nn.Parameter(begin.float())
    optimizer = torch.optim.AdamW(
        [twin], lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY, foreach=False
    )
    hosts = {"memory": Host(begin, window), "files": Host(begin, window, folder)}
    weights = {place: begin.clone() for place in hosts}
    for number in range(1, steps + 1):
        gradient = torch.randn(elements, generator=dice).bfloat16()
        twin.grad = gradient.float()
        optimizer.step()
        for place, host in hosts.items():
            step(host, gradient, weights[place], window, number)
    return twin.detach(), hosts


def seconds_by_chunk(calls: Sequence[Call]) -> tuple[list[float], list[float], list[float]]:
    """Seconds of reading, updating and writing of each chunk, in the order of the calls.

    Whatever passes between a chunk's last read and its first write is its update.
    """
    read, update, write = [], [], []
    chunk: list[Call] = []
    for call in [*calls, None]:
        if call is None or (chunk and call.verb == "read" and chunk[-1].verb == "write"):
            read.append(sum(one.end - one.begin for one in chunk if one.verb == "read"))
            write.append(sum(one.end - one.begin for one in chunk if one.verb == "write"))
            update.append(chunk[-1].end - chunk[0].begin - read[-1] - write[-1])
            chunk = []
        if call is not None:
            chunk.append(call)
    return read, update, write


def median_by_chunk(calls: Sequence[Call], steps: int) -> list[list[float]]:
    """Median over equal steps of what `seconds_by_chunk` finds: one slow step does not count."""
    return [
        [statistics.median(kind[i :: len(kind) // steps]) for i in range(len(kind) // steps)]
        for kind in seconds_by_chunk(calls)
    ]
