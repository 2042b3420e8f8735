"""What runs on a rank whose NVTX is a notebook: each capture, with the step it happened at."""

from typing import Any

from dtlib.config import RunConfig
from dtlib.measure import profiling
from dtlib.training.start import prepare, train_on_rank


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
