"""Batch norm's running statistics: each rank's own in training, their mean where they are used."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from dtlib import launch, strategies
from dtlib.models.resnet import resnet18
from dtlib.ranks import dist
from dtlib.training.checkpoint import Checkpointer, Checkpoints, Progress
from tests.toy import config, ready

NORM = "stem.1"


def used(name: str, folder: str) -> tuple[list[float], list[float]]:
    """Mean, variance and count of a norm in an evaluation and in a checkpoint, on this rank."""
    settings = config(strategy=name)
    strategy = ready(strategies.find(name), settings, resnet18(8))
    norm, rank = strategy.module.get_submodule(NORM), dist.world().rank

    def drift() -> None:
        """What training leaves on a rank: statistics of its own."""
        pictures = torch.rand(4, 3, 32, 32) + rank
        strategy.backward(strategy.model(pictures).square().sum(), torch.tensor(1.0))
        assert strategy.step(lr=0.0).skipped is False
        norm.running_mean.fill_(1.0 + 2 * rank)
        norm.running_var.fill_(4.0 + rank)
        norm.num_batches_tracked.fill_(7 + rank)

    def figures(of: dict[str, torch.Tensor]) -> list[float]:
        kinds = ("running_mean", "running_var", "num_batches_tracked")
        return [of[f"{NORM}.{kind}"].double().mean().item() for kind in kinds]

    drift()
    with strategy.evaluating():
        evaluated = figures(dict(strategy.module.named_buffers()))
    drift()
    place = Path(folder) / name
    saver = Checkpointer(place, strategy, dataclasses.asdict(settings))
    saver.save(Progress(step=1), None)
    loaded = Checkpoints(place / "checkpoints").latest()
    assert loaded is not None
    strategy.close()
    return evaluated, figures(loaded.shared["strategy"]["model"])


@pytest.mark.parametrize("name", ["ddp", "zero2", "fsdp"])
def test_evaluation_and_checkpoint_take_the_mean_of_all_ranks(name, tmp_path):
    expected = [2.0, 4.5, 7.0]
    assert launch(used, name, str(tmp_path), ranks=2, show=False) == [(expected, expected)] * 2


def own_statistics(name: str) -> float:
    """A mean on this rank after a forward that began at 100 times the rank."""
    strategy = ready(strategies.find(name), config(strategy=name), resnet18(8))
    mean = strategy.module.get_submodule(NORM).running_mean
    mean.fill_(100.0 * dist.world().rank)
    loss = strategy.model(torch.rand(4, 3, 32, 32)).sum()
    strategy.backward(loss, torch.tensor(1.0))
    strategy.close()
    return mean.mean().item()


@pytest.mark.parametrize("name", ["ddp", "accelerate", "lightning", "fsdp"])
def test_in_training_each_rank_keeps_its_own(name):
    first, second = launch(own_statistics, name, ranks=2, show=False)
    assert abs(first) < 10 and 80 < second < 100  # a tenth of it is forgotten
