"""A slower network, simulated: an all-reduce that ends no sooner than the α–β model predicts.

If ranks share one machine's cores, gloo's copies and sums use the CPU time that backward needs, and
overlap gains nothing. On a cluster the network works by itself. So does this link, which is only a
clock. torch really computes the sum, but its wait ends when the clock says so: messages pass one
after the other, and each takes the time of a ring all-reduce, 2(N-1)·(α + S/N·β).

R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel
Computing 20 (1994) 389-398.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from dtlib.scratch.data_parallel.overlap import start_all_reduce
from dtlib.sim.collectives import ring_all_reduce_time


class OnTheLink(NamedTuple):
    """A message on its way: torch's own handle, and when the simulated network delivers it."""

    link: DelayedLink
    work: Any
    arrives: float

    def wait(self) -> None:
        """Wait until the sum is ready and the network would have delivered it."""
        self.link.waited += max(0.0, self.arrives - self.link.now())
        self.work.wait()
        self.link.sleep(max(0.0, self.arrives - self.link.now()))


class DelayedLink:
    """A network with a latency and a bandwidth of your choice (simulated).

    Parameters
    ----------
    alpha
        α, seconds per message.
    beta
        β, seconds per byte.
    now, sleep
        The clock, in seconds, and the function that sleeps.

    Attributes
    ----------
    busy
        Seconds for which the network has been busy so far.
    waited
        How many of these seconds a rank had to wait; the rest was hidden behind its computation.
    """

    def __init__(
        self,
        alpha: float,
        beta: float,
        *,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.alpha, self.beta, self.now, self.sleep = alpha, beta, now, sleep
        self.free_at = self.busy = self.waited = 0.0

    def all_reduce(self, tensor: torch.Tensor) -> OnTheLink:
        """Start to sum a tensor over all ranks, in place, after what is already on the link."""
        size = tensor.numel() * tensor.element_size()
        takes = ring_all_reduce_time(size, dist.get_world_size(), self.alpha, self.beta)
        self.free_at = max(self.free_at, self.now()) + takes
        self.busy += takes
        return OnTheLink(self, start_all_reduce(tensor), self.free_at)
