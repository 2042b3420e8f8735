"""What runs on ranks under a profiler: slow for a known reason, or with notes in place of NVTX."""

import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from dtlib.config import RunConfig
from dtlib.measure import profiling
from dtlib.scratch.data_parallel import DelayedLink
from dtlib.training.start import prepare, train_on_rank

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


class Counting:
    """Counts steps, and notes at which one the capture began and ended."""

    def __init__(self) -> None:
        self.steps, self.captured = 0, []

    def push(self, name: str) -> None:
        self.steps += name == "step"

    def pop(self) -> None:
        pass

    def start(self) -> None:
        self.captured.append(("before", self.steps + 1))

    def stop(self) -> None:
        self.captured.append(("after", self.steps))


def captured(settings: dict[str, Any]) -> list[tuple[str, int]]:
    """Train as one rank, and return where its capture began and ended."""
    tool = Counting()
    profiling.nvtx = lambda: tool
    train_on_rank(prepare(RunConfig(**settings)))
    return tool.captured
