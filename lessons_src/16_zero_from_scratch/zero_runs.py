"""Train a small network that is sharded in several ways, and keep the books: lesson 16's runs.

Each rank trains on its part of a batch; beside it a twin trains on the whole batch, as one process
would. The ledger counts the bytes that a rank holds between backward and the update, and a wire
log counts the elements that leave it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.learn.wire import WireLog, elements_sent
from dtlib.measure import ledger

from .zero_ways import MAKE, Flat, Scheduled, Way, from_shards

__all__ = ["Books", "Flat", "Scheduled", "Sizes", "from_shards", "run", "worst"]

KINDS = ("parameters", "gradients", "optimizer", "fp32_copy")


@dataclass(frozen=True)
class Sizes:
    """Layers of `width` by `width`, trained for `steps` steps by `ranks` ranks.

    With `clip` the twin clips its gradient to that length.
    """

    ranks: int = 4
    width: int = 32
    steps: int = 4
    layers: int = 4
    clip: float | None = None

    @property
    def psi(self) -> int:
        """Ψ, weights and biases."""
        return self.layers * self.width * (self.width + 1)

    def network(self) -> nn.Sequential:
        """The network at its start, the same wherever it is made."""
        torch.manual_seed(16)
        pairs = ((nn.Linear(self.width, self.width), nn.Tanh()) for _ in range(self.layers))
        return nn.Sequential(*(nn.Sequential(*pair) for pair in pairs))

    def batch(self, step: int) -> torch.Tensor:
        """Inputs and targets of a step: [2, 8·ranks, width]."""
        generator = torch.Generator().manual_seed(step)
        return torch.randn(2, 8 * self.ranks, self.width, generator=generator)

    def twin(self, kind: str) -> Iterator[torch.Tensor]:
        """One process with the whole batch: all its weights after each step."""
        model = self.network()
        optimizer = MAKE[kind](model.parameters())
        for step in range(self.steps):
            x, y = self.batch(step)
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            if self.clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), self.clip)
            optimizer.step()
            yield nn.utils.parameters_to_vector(model.parameters()).detach()


@dataclass
class Books:
    """What one way to train did: of each number, the largest of all ranks.

    Attributes
    ----------
    far
        By optimizer, the largest distance of a weight from the twin's after each step.
    held
        Bytes a parameter by kind, just before the last update.
    sent
        Elements that a rank sent in the last step, in Ψ.
    stairs
        Whole layers on rank 0 after each line of a schedule, in the last micro-batch.
    """

    far: dict[str, list[float]] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    sent: float = 0.0
    stairs: list[float] = field(default_factory=list)

    @property
    def bytes_each(self) -> float:
        """Bytes a parameter of all kinds."""
        return sum(self.held.values())


def worst(found: Mapping[str, Books]) -> float:
    """The largest distance from the twin of all ways, optimizers and steps."""
    return max(max(far) for books in found.values() for far in books.far.values())


def run(
    ways: Mapping[str, Way],
    sizes: Sizes,
    *,
    kinds: Sequence[str] = ("SGD", "AdamW"),
    k: int = 1,
    mixed: bool = False,
    clip: float | None = None,
) -> dict[str, Books]:
    """Train each way on real ranks, with each optimizer; bytes are those of the last one.

    Parameters
    ----------
    ways
        By name.
    kinds
        Optimizers, keys of `MAKE`.
    k
        Micro-batches a step; the 8 samples of a rank are cut into that many.
    mixed
        Weights and gradients in bf16; then nothing is equal to the fp32 twin.
    clip
        The length to which the twin clips its gradient.
    """
    from dtlib.ranks.launcher import launch

    sizes = replace(sizes, clip=clip)
    settings = [(way, kind) for way in ways.values() for kind in kinds]
    by_rank = launch(
        _on_rank, settings, sizes, k, mixed, ranks=sizes.ranks, device="cpu", show=False
    )
    found = {name: Books() for name in ways}
    names = [(name, kind) for name in ways for kind in kinds]
    for (name, kind), several in zip(names, zip(*by_rank, strict=True), strict=True):
        far, held, sent, stairs = zip(*several, strict=True)
        books = found[name]
        books.far[kind] = [max(of_ranks) for of_ranks in zip(*far, strict=True)]
        books.held = {each: max(h.get(each, 0) for h in held) / sizes.psi for each in KINDS}
        books.sent = max(sent) / sizes.psi
        books.stairs = [size * sizes.layers / (4 * sizes.psi) for size in stairs[0]]
    return found


def _on_rank(settings: Sequence[tuple[Way, str]], sizes: Sizes, k: int, mixed: bool) -> list[Any]:
    return [_train(way, kind, sizes, k, mixed) for way, kind in settings]


def _train(way: Way, kind: str, sizes: Sizes, k: int, mixed: bool) -> tuple[Any, ...]:
    """Distance from the twin after each step; bytes held and elements sent in the last; stairs."""
    dtype = torch.bfloat16 if mixed else torch.float32
    rank, n = way.on_rank(sizes.network().to(dtype), kind), sizes.ranks
    far = []
    for step, right in enumerate(sizes.twin(kind)):
        x, y = sizes.batch(step).to(dtype).chunk(n, dim=1)[dist.get_rank()]
        # The ledger is slow, so only the last step is watched.
        watched = ledger.watch(rank) if step == sizes.steps - 1 else contextlib.nullcontext()
        with watched as page, WireLog() as log:
            for inputs, targets in zip(x.chunk(k), y.chunk(k), strict=True):
                rank.micro_batch(inputs, targets, k)
            rank.step()
        with rank.whole():
            now = nn.utils.parameters_to_vector(rank.model.parameters()).detach()
            far.append(float((now - right).abs().max()))
    assert page is not None
    return far, page.before_update, elements_sent(log.messages, n), rank.stairs
