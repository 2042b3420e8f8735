"""Train a small GPT sharded in several ways, beside a twin in one process: lesson 19's runs.

A way is a function that shards a model: `way(model, mesh)`. The ledger counts the bytes that a rank
holds and sends in a step, `trace` notes in which order.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput
from dtlib.measure import ledger
from dtlib.measure.ledger import census
from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.ranks.dist import sum_over_ranks, world

from .trace import Event, Trace

HEADS = 4
Way = Callable[[nn.Module, Any], Any]


@dataclass(frozen=True)
class Sizes:
    """A GPT of `layers` blocks, trained for `steps` steps by `ranks` ranks on one `device` type."""

    ranks: int = 4
    layers: int = 4
    width: int = 32
    steps: int = 2
    words: int = 64
    context: int = 16
    rows: int = 2
    device: str = "cpu"

    def __post_init__(self) -> None:
        uneven = [x for x in (self.words, self.context, self.width) if x % self.ranks]
        if self.ranks < 4 or self.ranks % 2 or uneven or self.width % HEADS:
            raise BadInput(
                f"ranks={self.ranks} and width={self.width}: take 4, 8 or 16 ranks, and a width"
                " that is a multiple of them, so that all tensors divide evenly."
            )

    def model(self) -> GPT:
        """The model at its start, the same wherever it is made."""
        return GPT(GPTConfig(self.words, self.context, self.layers, HEADS, self.width), seed=19)

    def batch(self, step: int) -> torch.Tensor:
        """The tokens of a step: [rows · ranks, context]; each token is the next one's label."""
        generator = torch.Generator().manual_seed(step)
        return torch.randint(0, self.words, (self.rows * self.ranks, self.context + 1),
                             generator=generator)  # fmt: skip

    @property
    def psi(self) -> int:
        return sum(p.numel() for p in self.model().parameters())

    @property
    def block(self) -> int:
        """Parameters of one block."""
        return sum(p.numel() for p in self.model().h[0].parameters())


@dataclass
class Books:
    """What one way to shard did, of rank 0 where ranks are alike.

    Attributes
    ----------
    losses
        Global mean of each step.
    far
        Largest distance of a weight from the twin's after the last step, with SGD.
    held
        Bytes by kind, between backward and the update of AdamW.
    whole, gradients
        Bytes of weights that were whole at once, at most, beside the shards; and of gradients.
    calls, sent
        Collectives of a step by name, and the bytes that a rank sends for them on a ring.
    events
        The trace of a step.
    """

    losses: list[float]
    far: float
    held: dict[str, int]
    whole: int
    gradients: int
    calls: dict[str, int]
    sent: dict[str, float]
    events: list[Event] = field(repr=False)

    @property
    def bytes_sent(self) -> float:
        return sum(self.sent.values())


def worst(found: Mapping[str, Books]) -> float:
    """The largest distance from the twin of all ways."""
    return max(books.far for books in found.values())


def run(ways: Mapping[str, Way], sizes: Sizes) -> dict[str, Books]:
    """Shard, train and watch the same model in each of the ways, on real ranks."""
    from dtlib.ranks.launcher import launch

    every = launch(
        _on_rank, dict(ways), sizes, ranks=sizes.ranks, device=sizes.device, show=False, timeout=120
    )
    found: dict[str, Books] = every[0]
    for name, books in found.items():
        books.far = max(rank[name].far for rank in every)
    return found


def _on_rank(ways: dict[str, Way], sizes: Sizes) -> dict[str, Books]:
    twin = _twin(sizes)
    return {name: _books(way, sizes, twin) for name, way in ways.items()}


def sharded(way: Way, sizes: Sizes, **given: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    """On a rank: the model at its start, sharded in a way, and AdamW for its shards.

    `given` are AdamW's settings.
    """
    from torch.distributed.device_mesh import init_device_mesh

    here = world()
    model = sizes.model().to(here.device)
    way(model, init_device_mesh(here.device.type, (here.world_size,)))
    return model, torch.optim.AdamW(model.parameters(), **given)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, sizes: Sizes, k: int) -> float:
    """Step number `k` on this rank's part of the batch; the global mean of the loss before it."""
    loss = _backward(model, sizes, k)
    optimizer.step()
    optimizer.zero_grad()
    return float(sum_over_ranks(loss)) / dist.get_world_size()


def _backward(model: nn.Module, sizes: Sizes, k: int) -> torch.Tensor:
    """FSDP2 takes the mean of the gradients over the ranks, which have equally many rows."""
    rows = sizes.batch(k).tensor_split(dist.get_world_size())[dist.get_rank()]
    rows = rows.to(world().device)
    loss: torch.Tensor = model(rows[:, :-1], rows[:, 1:]) / rows[:, 1:].numel()
    loss.backward()
    return loss.detach()


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _twin(sizes: Sizes) -> dict[str, torch.Tensor]:
    """The weights of one process that trains on the whole batch."""
    model = sizes.model().to(world().device)
    optimizer = _sgd(model)
    for k in range(sizes.steps):
        tokens = sizes.batch(k).to(world().device)
        (model(tokens[:, :-1], tokens[:, 1:]) / tokens[:, 1:].numel()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: p.detach() for name, p in model.named_parameters()}


def _books(way: Way, sizes: Sizes, twin: dict[str, torch.Tensor]) -> Books:
    model, _ = sharded(way, sizes)
    optimizer = _sgd(model)
    losses = [train_step(model, optimizer, sizes, k) for k in range(sizes.steps)]
    far = max(float((whole(p) - twin[name]).abs().max()) for name, p in model.named_parameters())
    model, optimizer = sharded(way, sizes)
    trace = Trace(model)
    train_step(model, optimizer, sizes, 0)  # AdamW makes its moments
    with ledger.watch(model, optimizer) as page:
        _backward(model, sizes, 1)
        optimizer.step()
        optimizer.zero_grad()
    with trace.watching() as events:
        _backward(model, sizes, 2)
    kinds = ("parameters", "gradients", "optimizer")
    held = {kind: page.before_update.get(kind, 0) for kind in kinds}
    return Books(
        losses, far, held, page.most["parameters"] - held["parameters"], page.most["gradients"],
        {name: tally.calls for name, tally in page.collectives.items()},
        {name: tally.wire for name, tally in page.collectives.items()},
        events,
    )  # fmt: skip


def whole(parameter: Any) -> torch.Tensor:
    """All of a parameter; every rank has to call this."""
    tensor: torch.Tensor = parameter.full_tensor().detach()
    return tensor


def accumulated(
    way: Way, accumulate: Callable[..., Any], sizes: Sizes, parts: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Calls and bytes sent by a rank in a step of several micro-batches, and gradients waiting.

    `waiting` is how much more memory lives when the last micro-batch begins than at the first.

    First with a reduction in each micro-batch, then by `accumulate(model, parts)`.
    """
    from dtlib.ranks.launcher import launch

    pair: tuple[dict[str, Any], dict[str, Any]] = launch(
        _both, way, accumulate, sizes, parts, ranks=sizes.ranks, device=sizes.device, show=False
    )[0]
    return pair


def _both(way: Way, accumulate: Callable[..., Any], sizes: Sizes, parts: int) -> Any:
    return _counted(way, _each_time, sizes, parts), _counted(way, accumulate, sizes, parts)


def _each_time(model: nn.Module, parts: Any) -> None:
    for x, y in parts:
        (model(x, y) / y.numel() / len(parts)).backward()


def _counted(way: Way, backward: Callable[..., Any], sizes: Sizes, parts: int) -> dict[str, Any]:
    model, optimizer = sharded(way, sizes)
    train_step(model, optimizer, sizes, 0)
    rows = sizes.batch(1).tensor_split(dist.get_world_size())[dist.get_rank()].to(world().device)
    pairs = [(rows[:, :-1], rows[:, 1:])] * parts
    alive: list[int] = []  # when each micro-batch begins
    hook = model.register_forward_pre_hook(lambda *_: alive.append(_alive()), prepend=True)
    with CollectiveLog() as log:
        backward(model, pairs)
    hook.remove()
    tallies = log.tallies
    tallies.pop("all_reduce", None)  # of the number of samples
    return {
        "calls": {name: tally.calls for name, tally in tallies.items()},
        "sent": {name: tally.wire for name, tally in tallies.items()},
        "waiting": alive[-1] - alive[0],
    }


def _alive() -> int:
    """Bytes of all tensors of this process."""
    gc.collect()
    return sum({census.key_of(storage): storage.nbytes() for storage in census.alive()}.values())
