"""Runs on two ranks that are slow for a known reason, profiled."""

import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from dtlib.measure import profiling
from dtlib.scratch.data_parallel import DelayedLink

STEPS = 5
WIDTH = 256


def batches(seconds: float, rows: int) -> Iterator[torch.Tensor]:
    for _ in range(STEPS):
        time.sleep(seconds)
        yield torch.ones(rows, WIDTH)


def profiled(
    folder: str, loader: float = 0.0, link: float = 0.0, rows: int = 8, late: int | None = None
) -> None:
    """Train a little, with a loader that sleeps, a link that takes its time, or many rows.

    `loader` and `link` are seconds a step; with `late` only that rank's loader sleeps.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    model: Any = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    network = DelayedLink(alpha=link / (2 * (dist.get_world_size() - 1)), beta=0.0)
    own = loader if late in (None, dist.get_rank()) else 0.0
    with profiling.record(folder) as step:
        for x in profiling.input_of(batches(own, rows)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            flat = torch.cat([p.grad.flatten() for p in model.parameters()])
            with profiling.communication():
                network.all_reduce(flat).wait()
            optimizer.step()
            step()
