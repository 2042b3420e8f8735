"""What exercise 22.2 runs in: painted models under DDP, two steps, and a record of what they cost.

Counted are the all-reduces and their bytes, how often a number is read from a tensor (`.item()`,
`float(…)`, which wait for a device), how many micro-batches are held at once, and the optimizer's
steps. Nothing is timed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from dtlib.measure.ledger.collectives import CollectiveLog

MICRO, PLAIN, SGD, ADAMW = (
    "4 micro-batches",
    "one micro-batch",
    "SGD with momentum, 4 micro-batches",
    "AdamW, 4 micro-batches",
)
LABELS = (MICRO, PLAIN, SGD, ADAMW)
COUNTS = {MICRO: 4, PLAIN: 1, SGD: 4, ADAMW: 4}
PAINT = (2.0, 4.0, 9.0, 13.0)  # of the micro-batches; their mean is 7
PAINTED = 3  # parameters of the painted model, 8 bytes each
ROWS = 2  # samples of a micro-batch
NUMBER = 8  # bytes of one number in float64


class Facts(NamedTuple):
    """What a rank saw in its first step; a tensor carries it home, the numbers last."""

    calls: float
    payload: float
    reads: float
    held: float  # the most micro-batches whose activations were held at once
    steps: float  # of the optimizer
    entered: float  # how often no_sync() was entered
    is_tensor: float
    numbers: list[float]

    @classmethod
    def of(cls, values: list[float]) -> Facts:
        """Read what `on_rank` returned."""
        k = len(cls._fields) - 1
        named: dict[str, Any] = dict(zip(cls._fields, values[:k], strict=False))
        return cls(**named, numbers=values[k:])


class Reads(TorchDispatchMode):
    """Count how often a number is read from a tensor into Python."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


class Watched(DistributedDataParallel):
    """DDP that knows how many micro-batches wait for their backward, and who asks for no_sync."""

    rows = held = most = entered = 0

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Take a forward pass, and note it until its gradient has come by."""
        out = super().forward(*inputs, **kwargs)
        if out.requires_grad:
            self.held += len(out)
            self.most = max(self.most, self.held)
            out.register_hook(functools.partial(self._gone, len(out)))
        return out

    def no_sync(self) -> Any:
        """Note that it was asked for."""
        self.entered += 1
        return super().no_sync()

    def _gone(self, rows: int, gradient: torch.Tensor) -> None:
        self.held -= rows


class Painted(nn.Module):
    """Three weights 1, 0, 0 that are added up: the gradient of each is the mean of x."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            nn.Parameter(torch.tensor([value], dtype=torch.float64)) for value in (1.0, 0.0, 0.0)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x times the sum of the weights."""
        return x * (self.weights[0] + self.weights[1] + self.weights[2])


def on_rank(group_of: Callable[[], Any], student: Callable[..., Any], code: torch.Tensor) -> Any:
    """Take two steps of a case; return the facts of the first, its loss, and weights."""
    label, rank, n = LABELS[int(code)], dist.get_rank(), dist.get_world_size()
    group = group_of()
    model, loss_fn = network(label)
    ddp = Watched(model, process_group=group)
    optimizer, steps = _counted(label, ddp)
    kept: list[torch.Tensor] = []
    found: list[list[float]] = []
    losses: list[Any] = []
    for step in range(2):
        log, reads, done = CollectiveLog(), Reads(), torch.zeros(1)
        try:
            with log, reads:
                losses.append(student(ddp, optimizer, loss_fn, micro_batches(label, step, rank, n)))
            done += 1
        finally:  # the next step meets in DDP's backward: nobody may go there alone
            dist.all_reduce(done, dist.ReduceOp.MIN, group=group)
        if not done:
            return None
        kept += [p.detach().clone().flatten() for p in ddp.parameters()]
        # DDP's own broadcast, when it rebuilds its buckets, is none of the student's
        sent = [tally for name, tally in log.tallies.items() if name != "broadcast"]
        calls, payload = (sum(getattr(t, what) for t in sent) for what in ("calls", "payload"))
        found.append([calls, payload, reads.count, ddp.most / ROWS, len(steps), ddp.entered])
    return _told(found[0], losses[0], kept)


def _told(facts: list[float], loss: Any, kept: list[torch.Tensor]) -> Any:
    """All in one tensor; a loss that is no number goes home as it is."""
    if isinstance(loss, (int, float)) and not isinstance(loss, bool):
        value = torch.tensor([float(loss)], dtype=torch.float64)
    elif isinstance(loss, torch.Tensor) and loss.numel() == 1:
        value = loss.detach().double().flatten()
    else:
        return loss
    facts = [*facts, float(isinstance(loss, torch.Tensor))]
    return torch.cat([torch.tensor(facts, dtype=torch.float64), value, *kept])


def _counted(label: str, model: nn.Module) -> tuple[torch.optim.Optimizer, list[int]]:
    """An optimizer, and a list that grows with its steps; what it reads itself does not count."""
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
    """Plain SGD shows a painted gradient; the proofs have a state."""
    if label == SGD:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if label == ADAMW:
        return torch.optim.AdamW(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=1.0)


def network(label: str) -> tuple[nn.Module, Callable[..., torch.Tensor]]:
    """The model of a case and the mean loss of a micro-batch."""
    if label in (MICRO, PLAIN):
        return Painted(), lambda out, y: out.mean()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Tanh())
    return model.double(), F.mse_loss


def micro_batches(label: str, step: int, rank: int, n: int) -> list[Any]:
    """A rank's micro-batches of `ROWS` samples: painted 10**rank times 2, 4, 9, 13, or drawn."""
    count = COUNTS[label]
    if label in (MICRO, PLAIN):
        paint = PAINT if label == MICRO else (7.0,)
        ones = torch.ones(ROWS, 1, dtype=torch.float64)
        return [(ones * 10.0**rank * value, ones) for value in paint]
    generator = torch.Generator().manual_seed(11 + step)
    shape = n, count, ROWS
    x, y = (torch.randn(*shape, k, generator=generator, dtype=torch.float64) for k in (3, 2))
    return [(x[rank, k], y[rank, k]) for k in range(count)]


def want(kind: int, n: int) -> torch.Tensor:
    """Loss of the first step, and weights after each of two, as one process has them."""
    label = LABELS[kind]
    model, loss_fn = network(label)
    optimizer = make_optimizer(label, model)
    kept: list[torch.Tensor] = []
    first = torch.zeros(1, dtype=torch.float64)
    for step in range(2):
        batches = [batch for rank in range(n) for batch in micro_batches(label, step, rank, n)]
        optimizer.zero_grad()
        for x, y in batches:
            loss = loss_fn(model(x), y) / len(batches)
            loss.backward()
            first += loss.detach() * (step == 0)
        optimizer.step()
        kept += [p.detach().clone().flatten() for p in model.parameters()]
    return torch.cat([first, *kept])
