"""A step of data parallel, timed: really, and over a link that is a clock (simulated).

The clock makes no sums, so they take no core from backward: what is measured is when each bucket
was full, and the clock says when a ring all-reduce would have delivered it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from dtlib.sim.collectives import ring_all_reduce_time

Finish = Callable[[], None]
WARM_UP, SAMPLES = 2, 512


class Timeline(NamedTuple):
    """Milliseconds since backward began: its end, and `(full, leaves, arrives)` of each bucket."""

    backward: float
    rows: list[tuple[float, float, float]]

    @property
    def done(self) -> float:
        """When backward has ended and every bucket has arrived."""
        return max([self.backward, *(row[2] for row in self.rows)])

    @property
    def hidden(self) -> float:
        """The share of the link's time, 0 to 1, that passes before backward ends."""
        busy = sum(arrives - leaves for _, leaves, arrives in self.rows)
        early = (min(a, self.backward) - min(b, self.backward) for _, b, a in self.rows)
        return sum(early) / busy if busy else 0.0


class ClockLink:
    """Stands in for a network of latency α (seconds) and inverse bandwidth β (seconds per byte)."""

    def __init__(self, alpha: float, beta: float) -> None:
        self.alpha, self.beta, self.free_at = alpha, beta, 0.0
        self.rows: list[tuple[float, float, float]] = []

    def all_reduce(self, tensor: torch.Tensor) -> ClockLink:
        """Note when a message is full, leaves and arrives; the tensor stays as it is."""
        full, size = time.perf_counter(), tensor.numel() * tensor.element_size()
        leaves = max(full, self.free_at)
        takes = ring_all_reduce_time(size, dist.get_world_size(), self.alpha, self.beta)
        self.free_at = leaves + takes
        self.rows.append((full, leaves, self.free_at))
        return self

    def wait(self) -> None:
        """Nothing: the clock knows already when the message arrives."""


def network(width: int, layers: int, seed: int = 0) -> nn.Sequential:
    """`layers` blocks of a linear layer and a norm."""
    torch.manual_seed(seed)
    blocks: list[nn.Module] = []
    for _ in range(layers):
        blocks += [nn.Linear(width, width), nn.LayerNorm(width)]
    return nn.Sequential(*blocks)


def step_times(
    ready: Callable[[str, nn.Module], Finish],
    ways: Sequence[str],
    width: int,
    layers: int,
    repeats: int,
) -> dict[str, list[float]]:
    """Milliseconds of forward, backward and what `ready(way, model)` returns, in turns."""
    x = torch.randn(SAMPLES, width)
    models = {way: network(width, layers) for way in ways}
    finishes = {way: ready(way, model) for way, model in models.items()}
    seen: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats + WARM_UP):
        for way, model in models.items():
            model.zero_grad()
            dist.barrier()
            begin = time.perf_counter()
            model(x).square().mean().backward()
            finishes[way]()
            seen[way].append(1000 * (time.perf_counter() - begin))
    return {way: times[WARM_UP:] for way, times in seen.items()}


def timeline(
    ready: Callable[[nn.Module, Callable[[torch.Tensor], Any]], Finish],
    width: int,
    layers: int,
    repeats: int,
    alpha: float,
    beta: float,
) -> Timeline:
    """Run steps over a `ClockLink`; return the one whose `done` is the median.

    `ready(model, all_reduce)` returns what is called after backward.
    """
    model, link = network(width, layers), ClockLink(alpha, beta)
    finish, x = ready(model, link.all_reduce), torch.randn(SAMPLES, width)
    seen = []
    for _ in range(repeats + WARM_UP):
        model.zero_grad()
        loss = model(x).square().mean()
        link.rows.clear()
        dist.barrier()
        link.free_at = begin = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        finish()
        rows = [tuple(1000 * (t - begin) for t in row) for row in link.rows]
        seen.append(Timeline(1000 * (end - begin), rows))  # type: ignore[arg-type]
    return sorted(seen[WARM_UP:], key=lambda run: run.done)[repeats // 2]
