"""What exercise 8.4 runs in: painted models, two steps, and a link that keeps a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.scratch.data_parallel import assign_buckets

PLAIN, ORDER, MICRO, SGD, ADAMW = (
    "one micro-batch",
    "odd ranks use their layers in another order",
    "3 micro-batches",
    "SGD with momentum, 2 micro-batches",
    "AdamW, 2 micro-batches",
)
LABELS = (PLAIN, ORDER, MICRO, SGD, ADAMW)
SHAPES = ((4, 3), (4,), (2, 4), (2,), (1, 2), (1,))  # 29 numbers of 8 bytes
NAMES = ("0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias")
LAYERS = [
    name
    for name, shape in zip(NAMES, SHAPES, strict=True)
    for _ in range(torch.Size(shape).numel())
]
CAP = 104
MICRO_BATCHES = {PLAIN: 1, ORDER: 1, MICRO: 3, SGD: 2, ADAMW: 2}
WEIGHTS = (1.0, 2.0, 4.0)  # of the painted micro-batches


class NoWait(Exception):
    """What came back cannot be called; the text says what it is."""


class Facts(NamedTuple):
    """What a rank saw; a tensor carries it home, the numbers last."""

    buckets: float
    target: float
    starts: float
    bytes: float
    again: float  # starts of the second step
    early: float  # starts of the first step while backward ran
    inside: float  # waits while backward ran
    changed: float  # buffers that changed while they were on their way
    unwaited: float
    first_micro: float
    first_bucket: float
    numbers: list[float]

    @classmethod
    def of(cls, values: list[float]) -> Facts:
        """Read what `on_rank` returned."""
        k = len(cls._fields) - 1
        named: dict[str, Any] = dict(zip(cls._fields, values[:k], strict=False))
        return cls(**named, numbers=values[k:])

    @property
    def clean(self) -> bool:
        """Whether every message left once, in time, and was waited for."""
        flaws = self.inside + self.changed + self.unwaited
        sent = (self.starts, self.again, self.early) == (self.buckets,) * 3
        return sent and not flaws and self.bytes == self.target


class Sending:
    """A message on its way, whose sum is in the buffer once it was waited for."""

    def __init__(self, link: Link, tensor: torch.Tensor) -> None:
        self.link, self.tensor, self.before = link, tensor, tensor.detach().clone()
        self.summed = self.before.clone()
        dist.all_reduce(self.summed)
        self.waited = False

    def wait(self) -> None:
        """Deliver."""
        if self.waited:
            return
        self.waited = True
        self.link.inside += self.link.in_backward
        self.link.changed += not torch.equal(self.tensor.detach(), self.before)
        with torch.no_grad():
            self.tensor.copy_(self.summed)


class Link:
    """What the student gets as `all_reduce`, and the record of it."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, float, bool]] = []  # micro-batch, bytes, paint, early
        self.sendings: list[Sending] = []
        self.in_backward, self.micro, self.inside, self.changed = False, 0, 0, 0

    def __call__(self, tensor: torch.Tensor) -> Sending:
        """Start to sum a tensor over all ranks."""
        size = tensor.numel() * tensor.element_size()
        first = float(tensor.detach().flatten()[0])
        self.sent.append((self.micro, size, first, self.in_backward))
        self.sendings.append(Sending(self, tensor))
        return self.sendings[-1]


def on_rank(student: Callable[..., Any], code: torch.Tensor) -> torch.Tensor:
    """Run two steps of a case; return the facts, and gradients or weights."""
    label, rank, n = LABELS[int(code)], dist.get_rank(), dist.get_world_size()
    params, optimizer = _start(label)
    cap = 24 if label == ORDER else CAP
    buckets = assign_buckets(params, cap)
    link, count = Link(), MICRO_BATCHES[label]
    wait = student(buckets, link, lambda: link.micro == count - 1)
    if not callable(wait):
        raise NoWait(f"a {type(wait).__name__}" if wait is not None else "None")
    kept: list[torch.Tensor] = []
    early = starts = 0
    for step in range(2):
        for link.micro in range(count):
            loss = _loss(label, params, step, link.micro, rank, n)
            link.in_backward = True
            loss.backward()
            link.in_backward = False
        wait()
        if step == 0:
            starts, early = len(link.sent), sum(s[3] for s in link.sent)
            kept = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in params]
        if optimizer is not None:
            optimizer.step()
        # As zero_grad(set_to_none=False): who reads a gradient too early finds the old one.
        for p in params:
            p.grad = None if p.grad is None else torch.zeros_like(p)
    first = link.sent[0] if link.sent else (0, 0, 0.0, True)
    facts = [
        len(buckets), 8 * sum(p.numel() for p in params), starts,
        sum(s[1] for s in link.sent[:starts]), len(link.sent) - starts, early, link.inside,
        link.changed, sum(not s.waited for s in link.sendings), first[0],
        0 if label != ORDER else 2 - round(first[2] / 10**rank),
    ]  # fmt: skip
    shown = kept if optimizer is None else [p.detach() for p in params]
    numbers = torch.cat([t.flatten() for t in shown])
    return torch.cat([torch.tensor(facts, dtype=torch.float64), numbers])


def _start(label: str) -> tuple[list[nn.Parameter], torch.optim.Optimizer | None]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((3,), (3,)) if label == ORDER else SHAPES
    params = [
        nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))
        for shape in shapes
    ]
    if label == SGD:
        return params, torch.optim.SGD(params, lr=0.1, momentum=0.9)
    if label == ADAMW:
        return params, torch.optim.AdamW(params, lr=0.01)
    return params, None


def _loss(
    label: str, params: list[nn.Parameter], step: int, micro: int, rank: int, n: int
) -> torch.Tensor:
    """Painted: 10**r times the sum of all parameters. Else a small network's loss on real data."""
    if label in (SGD, ADAMW):
        x, y = (part.chunk(n)[rank].chunk(2)[micro] for part in _batch(step))
        return F.mse_loss(_network(params, x), y) / 2
    places = list(range(len(params)))
    if label == ORDER and rank % 2:
        places.reverse()
    total = torch.zeros((), dtype=torch.float64)
    for k in places:
        paint = k + 1 if label == ORDER else 1
        total = total + params[k].sum() * paint
    return total * 10.0**rank * WEIGHTS[micro]


def _network(params: list[nn.Parameter], x: torch.Tensor) -> torch.Tensor:
    for weight, bias in zip(params[::2], params[1::2], strict=True):
        x = torch.tanh(F.linear(x, weight, bias))
    return x


def _batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7 + step)
    x, y = (torch.randn(24, k, generator=generator, dtype=torch.float64) for k in (3, 1))
    return x, y


def want(kind: int, n: int) -> torch.Tensor:
    """The gradients of the first step, or the weights after two steps of one process."""
    label = LABELS[kind]
    mean = sum(10.0**r for r in range(n)) / n
    if label == ORDER:
        return torch.tensor([mean] * 3 + [2 * mean] * 3, dtype=torch.float64)
    if label in (PLAIN, MICRO):
        return torch.full((29,), mean * (7 if label == MICRO else 1), dtype=torch.float64)
    params, optimizer = _start(label)
    assert optimizer is not None
    for step in range(2):
        optimizer.zero_grad()
        x, y = _batch(step)
        F.mse_loss(_network(params, x), y).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in params])
