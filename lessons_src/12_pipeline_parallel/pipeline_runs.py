"""Train a small network by several schedules on real ranks, and keep the books: lesson 12's runs.

First the proof, without sleep: three steps in float64, and beside them a twin that trains the whole
network on the whole batch, as one process would. Then one step with stages that sleep.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.scratch import pipeline as p

WIDTH, STEPS = 8, 3
MAKE = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=0.01, eps=1e-8),
}
Lists = Sequence[Sequence[Any]]


@dataclass
class Books:
    """What a schedule did on real ranks.

    Attributes
    ----------
    far
        By optimizer, the largest distance of a weight from the twin's after the last step.
    kept
        For each rank, the most forwards that it kept at once.
    messages, bytes
        Sent in a step by the rank that sends most.
    spans
        When each computation of the step with sleep ran, in seconds from its first start.
    """

    far: dict[str, float]
    kept: list[int]
    messages: int
    bytes: int
    spans: list[p.Span]


def seconds(sleep: float) -> dict[str, float]:
    """How long a stage sleeps in each computation."""
    return {
        "Forward": sleep, "Backward": 2 * sleep,
        "BackwardInput": sleep, "BackwardWeight": sleep,
    }  # fmt: skip


def worst(found: Mapping[str, Books]) -> float:
    """The largest distance from the twin, of all schedules and optimizers."""
    return max(max(books.far.values()) for books in found.values())


def run(ways: Mapping[str, Lists], sleep: float) -> dict[str, Books]:
    """Carry out each schedule on real ranks.

    Parameters
    ----------
    ways
        By name, the lists of all ranks; all for the same number of ranks.
    sleep
        Seconds of a forward, an input gradient and a weight gradient of a stage, each.
    """
    from dtlib.ranks.launcher import launch

    lists = list(ways.values())
    by_rank = launch(_on_rank, lists, sleep, ranks=len(lists[0]), device="cpu", show=False)
    found = {}
    for name, several in zip(ways, zip(*by_rank, strict=True), strict=True):
        far, kept, messages, sent, spans = zip(*several, strict=True)
        together = [span for of_rank in spans for span in of_rank]
        first = min(span.start for span in together)
        found[name] = Books(
            {kind: max(one[kind] for one in far) for kind in MAKE}, list(kept), max(messages),
            max(sent), [s._replace(start=s.start - first, end=s.end - first) for s in together],
        )  # fmt: skip
    return found


def _on_rank(several: Sequence[Lists], sleep: float) -> list[Any]:
    return [_both(lists, sleep) for lists in several]


def _both(lists: Lists, sleep: float) -> tuple[Any, ...]:
    """The proof with each optimizer, then the step that sleeps."""
    far = {kind: _distance(lists, kind) for kind in MAKE}
    network, (x, y) = _network(lists), _batch(lists, 0)
    worker = p.SleepingPipeline(list(network), lists, _loss_sum, seconds=seconds(sleep))
    dist.barrier()  # all ranks start together
    worker.step(x, y, y.numel())
    sent = worker.links
    return far, worker.most_kept, sent.messages.total(), sent.bytes.total(), worker.spans


def _distance(lists: Lists, kind: str) -> float:
    """How far this rank's weights are from the twin's after the last step."""
    network = _network(lists)
    twin = copy.deepcopy(network)
    worker = p.Pipeline(list(network), lists, _loss_sum)
    mine = MAKE[kind](worker.parameters())
    other = MAKE[kind](twin.parameters())
    for step in range(STEPS):
        x, y = _batch(lists, step)
        worker.step(x, y, y.numel())
        (_loss_sum(twin(x), y) / y.numel()).backward()
        for optimizer in (mine, other):
            optimizer.step()
            optimizer.zero_grad()
    own = set(worker.parameters())
    pairs = zip(network.parameters(), twin.parameters(), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs if a in own)


def _network(lists: Lists) -> nn.Sequential:
    """A layer for each stage, with the same start wherever it is made."""
    torch.manual_seed(12)
    stages = 1 + max(line.stage for lines in lists for line in lines)
    pairs = ((nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(stages))
    return nn.Sequential(*(nn.Sequential(*pair) for pair in pairs)).double()


def _batch(lists: Lists, step: int) -> torch.Tensor:
    """Inputs and targets: two samples in a micro-batch."""
    many = 1 + max(line.micro_batch for line in lists[0])
    generator = torch.Generator().manual_seed(step)
    return torch.randn(2, 2 * many, WIDTH, generator=generator, dtype=torch.float64)


def _loss_sum(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(y, target, reduction="sum")
