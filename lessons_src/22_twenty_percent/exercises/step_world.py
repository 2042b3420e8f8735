"""The world of exercise 22.2: painted models under DDP, two steps, and a record of their costs.

It counts the collectives and their bytes, how often a number is read from a tensor (`.item()`,
`float(…)`, `.tolist()` and `.numpy()`, before which a GPU has to be done), how many micro-batches
are in memory at once, and the optimizer's steps. It does not measure time. A painted gradient is a
plain number that shows where it comes from.
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from dtlib.learn.rank_runs import plain_group
from dtlib.measure.ledger.collectives import CollectiveLog

MICRO, PLAIN, SGD, ADAMW = (
    "4 micro-batches",
    "one micro-batch",
    "SGD with momentum, 4 micro-batches",
    "AdamW, 4 micro-batches",
)
COUNTS = {MICRO: 4, PLAIN: 1, SGD: 4, ADAMW: 4}
PAINTS = {MICRO: (2.0, 4.0, 9.0, 13.0), PLAIN: (7.0,)}  # one for each micro-batch; the mean is 7
PAINTED = 5  # parameters of the painted model, 8 bytes each: more than there are micro-batches
ROWS = 2  # samples of a micro-batch
NUMBER = 8  # bytes of one number in float64


@dataclass
class Taken:
    """What a rank recorded: the weights after each of two steps, the rest from the first step."""

    weights: list[list[float]]
    calls: int
    payload: int
    barriers: int
    reads: int
    held: float  # the most micro-batches whose activations were held at once
    steps: int  # of the optimizer
    entered: int  # how often no_sync() was entered
    loss: Any


class Reads(TorchDispatchMode):
    """Count how often a number is read from a tensor into Python."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.patches = [self._counted(name) for name in ("numpy", "tolist")]

    def _counted(self, name: str) -> Any:
        plain = getattr(torch.Tensor, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            self.count += not caller.startswith("dtlib.")  # its record of messages reads them
            return plain(*args, **kwargs)

        return mock.patch.object(torch.Tensor, name, counted)

    def __enter__(self) -> Any:
        for patch in self.patches:
            patch.start()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        for patch in self.patches:
            patch.stop()
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


class Watched(DistributedDataParallel):
    """DDP that counts the micro-batches that wait for their backward pass, and uses of no_sync."""

    held = most = entered = 0

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run a forward pass, and count its rows as held until their gradient arrives."""
        out = super().forward(*inputs, **kwargs)
        if out.requires_grad:
            self.held += len(out)
            self.most = max(self.most, self.held)
            out.register_hook(functools.partial(self._gone, len(out)))
        return out

    def no_sync(self) -> Any:
        """Count that it was used."""
        self.entered += 1
        return super().no_sync()

    def _gone(self, rows: int, gradient: torch.Tensor) -> None:
        self.held -= rows


class Painted(nn.Module):
    """Weights 1, 0, 0, … that are added up; the gradient of each is the mean of x."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            nn.Parameter(torch.tensor([float(k == 0)], dtype=torch.float64)) for k in range(PAINTED)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x times the sum of the weights."""
        return x * torch.cat(list(self.weights)).sum()


def take(student: Callable[..., Any], label: str) -> Taken | None:
    """Take two steps of a case; return None if another rank has failed in one of them."""
    group = plain_group()
    model, loss_fn = network(label)
    ddp = Watched(model, process_group=group)
    optimizer, steps = _counted(label, ddp)
    first: list[Any] = []
    weights: list[list[float]] = []
    for step in range(2):
        log, reads, done = CollectiveLog(), Reads(), torch.zeros(1)
        batches = micro_batches(label, step, dist.get_rank(), dist.get_world_size())
        try:
            with log, reads:
                loss = student(ddp, optimizer, loss_fn, batches)
            done += 1
        finally:  # DDP's backward waits for all ranks, so no rank may enter the next step alone
            dist.all_reduce(done, dist.ReduceOp.MIN, group=group)
        if not done:
            return None
        weights.append(weights_of(ddp))
        # without the broadcast that DDP itself sends when it rebuilds its buckets
        sent = [tally for name, tally in log.tallies.items() if name != "broadcast"]
        calls, payload = (sum(getattr(t, what) for t in sent) for what in ("calls", "payload"))
        barriers = sum(tally.calls for name, tally in log.tallies.items() if name == "barrier")
        held = ddp.most / ROWS
        costs = calls, payload, barriers, reads.count, held, len(steps), ddp.entered
        first = first or [*costs, loss]
    return Taken(weights, *first)


def _counted(label: str, model: nn.Module) -> tuple[torch.optim.Optimizer, list[int]]:
    """Return an optimizer and a list that grows with its steps; its own reads are not counted."""
    optimizer = make_optimizer(label, model)
    steps: list[int] = []
    plain = optimizer.step

    def step(*args: Any, **kwargs: Any) -> Any:
        steps.append(1)
        with _disable_current_modes():
            return plain(*args, **kwargs)

    optimizer.step = step  # type: ignore[method-assign]
    return optimizer, steps


def make_optimizer(label: str, model: nn.Module) -> torch.optim.Optimizer:
    """Make plain SGD for painted gradients, and an optimizer with a state for the other cases."""
    if label == SGD:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if label == ADAMW:
        return torch.optim.AdamW(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=1.0)


def network(label: str) -> tuple[nn.Module, Callable[..., torch.Tensor]]:
    """Return the model of a case, and the function for the mean loss of a micro-batch."""
    if label in PAINTS:
        return Painted(), lambda out, y: out.mean()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Tanh())
    return model.double(), F.mse_loss


def micro_batches(label: str, step: int, rank: int, n: int) -> list[Any]:
    """Make a rank's micro-batches of `ROWS` samples, painted or drawn at random."""
    if label in PAINTS:
        ones = torch.ones(ROWS, 1, dtype=torch.float64)
        return [(ones * 10.0**rank * value, ones) for value in PAINTS[label]]
    generator = torch.Generator().manual_seed(11 + step)
    shape = n, COUNTS[label], ROWS
    x, y = (torch.randn(*shape, k, generator=generator, dtype=torch.float64) for k in (3, 2))
    return list(zip(x[rank], y[rank], strict=True))


def alone(label: str, n: int) -> tuple[float, list[list[float]]]:
    """Compute in one process the loss of the first step and the weights after each of two."""
    model, loss_fn = network(label)
    optimizer = make_optimizer(label, model)
    losses, weights = [], []
    for step in range(2):
        batches = [batch for rank in range(n) for batch in micro_batches(label, step, rank, n)]
        optimizer.zero_grad()
        loss = torch.stack([loss_fn(model(x), y) for x, y in batches]).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        weights.append(weights_of(model))
    return losses[0], weights


def weights_of(model: nn.Module) -> list[float]:
    """Return all parameters of a model as one list of numbers."""
    return [value for p in model.parameters() for value in p.detach().flatten().tolist()]
