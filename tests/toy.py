"""A task of one weight, whose losses and gradients are known by hand, for tests of the loop."""

import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from dtlib.config import RunConfig
from dtlib.config.plan import BatchPlan
from dtlib.ranks import dist
from dtlib.strategies.base import Strategy
from dtlib.strategies.optim import make_optimizer
from dtlib.training.loop import global_count
from dtlib.training.tasks.base import Batch, Share, Task

IGNORED = -100


class Scale(torch.nn.Module):
    """x ↦ w·x, with w = 1 at first."""

    def __init__(self, dimensions: int = 1) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones([1] * dimensions))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w * x


class Toy(Task):
    """The loss of a number x is w·x, so the gradient is the mean of the numbers that count.

    `data` holds for each step the micro-batches of this rank; None among the numbers is one whose
    label is ignored.
    """

    sample, unit, metric, held_out_loss = "numbers", "numbers/s", "loss", "loss"
    train_size = 1_000_000

    def __init__(
        self, config: RunConfig, world: dist.World, data: Iterable[list[list[Any]]]
    ) -> None:
        super().__init__(config, world)
        self.model = Scale()
        self.data = data

    @classmethod
    def check_data(cls, config: RunConfig) -> int:
        return cls.train_size

    def train_batches(self, shares: Iterable[Share]) -> Iterator[Batch]:
        return itertools.chain.from_iterable(map(as_batches, self.data))

    def steps(self, plan: BatchPlan, first: int) -> Iterator[list[Batch]]:
        return map(as_batches, itertools.islice(self.data, first, None))

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Its model and its data have names of their own."""

    def loss_sum(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (logits * (labels != IGNORED)).sum()  # as in cross_entropy, 0 times infinity is NaN

    def evaluation_batches(self) -> int:
        return 1

    def evaluation_batch(self, number: int) -> Batch:
        return torch.ones(1), torch.ones(1, dtype=torch.long)

    def figures(self, loss: float, accuracy: float) -> dict[str, Any]:
        return {"loss": loss}


def as_batches(micro_batches: list[list[Any]]) -> list[Batch]:
    """Turn lists of numbers into inputs and labels."""
    return [
        (torch.tensor([0.0 if x is None else float(x) for x in numbers]),
         torch.tensor([IGNORED if x is None else 1 for x in numbers]))
        for numbers in micro_batches
    ]  # fmt: skip


def write_story(folder: Path) -> str:
    """Write a little text into a folder, and return its name."""
    folder.mkdir()
    lines = (f"{n} sheep and {n % 7} goats went up hill {n * n % 11}.\n" for n in range(200))
    (folder / "story.txt").write_text("".join(lines))
    return str(folder)


def config(**settings: Any) -> RunConfig:
    """Return a configuration with plain SGD and a constant rate of 1."""
    plain: dict[str, Any] = {"optimizer": "sgd", "lr": 1.0, "schedule": "constant"}
    plain |= {"momentum": 0.0} if settings.get("optimizer") != "adamw" else {}
    plain |= {"weight_decay": 0.0, "data": "toy", "model": "toy", "global_batch": 64}
    return RunConfig("text", **{**plain, **settings})


def ready(kind: type[Strategy], settings: RunConfig, model: torch.nn.Module) -> Strategy:
    """Return a strategy of that kind around a model, in the world that is there."""
    world = dist.world()
    strategy = kind(settings, world, settings.plan(world.world_size))
    strategy.prepare(model, lambda module: make_optimizer(settings, module))
    return strategy


def gradient(strategy: str, by_rank: list[list[list[Any]]]) -> tuple[float, float]:
    """Return gradient and mean loss of one step, on the rank that this runs on."""
    from dtlib import strategies

    settings = config(strategy=strategy)
    toy = Toy(settings, dist.world(), [])
    ready_strategy = ready(strategies.find(strategy), settings, toy.model)
    batches = as_batches(by_rank[dist.world().rank])
    count = global_count(toy, ready_strategy, batches)
    loss = dist.sum_over_ranks(ready_strategy.accumulate(toy, batches, count))
    assert toy.model.w.grad is not None
    assert not math.isnan(toy.model.w.grad.item())
    return toy.model.w.grad.item(), loss.item() / max(1, count.item())
