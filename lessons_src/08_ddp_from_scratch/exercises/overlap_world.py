"""What exercise 8.4 runs in: painted models, two steps, and a link that keeps a record.

The gradient of every number is painted: 10**r on rank r, times 1, 2 and 4 in three micro-batches.
On three ranks 37 is the mean of one micro-batch, 259 that of all three, 148 of the newest alone.
The link delivers when it is waited for, and not before: a rank that does not wait keeps its own
gradient.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.learn.verdicts import Wrong
from dtlib.scratch.data_parallel import assign_buckets

from .hooks import Hooks, hooks_seen

PLAIN, ORDER, MICRO, SGD, ADAMW = (
    "one micro-batch",
    "odd ranks use their layers in another order",
    "3 micro-batches",
    "SGD with momentum, 2 micro-batches",
    "AdamW, 2 micro-batches",
)
MICRO_BATCHES = {PLAIN: 1, ORDER: 1, MICRO: 3, SGD: 2, ADAMW: 2}
WEIGHTS = (1.0, 2.0, 4.0)  # of the painted micro-batches
# 29 numbers of 8 bytes, in three buckets
SHAPES = {
    "0.weight": (4, 3),
    "0.bias": (4,),
    "1.weight": (2, 4),
    "1.bias": (2,),
    "2.weight": (1, 2),
    "2.bias": (1,),
}
LAYERS = [name for name, shape in SHAPES.items() for _ in range(torch.Size(shape).numel())]
CAP = 104


class Sending:
    """A message on its way, whose sum is in the buffer once it was waited for."""

    def __init__(self, link: Link, tensor: torch.Tensor) -> None:
        self.link, self.tensor, self.before = link, tensor, tensor.detach().clone()
        self.summed = self.before.clone()
        dist.all_reduce(self.summed)
        self.waited, self.step = False, link.step

    def wait(self) -> None:
        """Deliver."""
        if self.waited:
            return
        self.waited = True
        self.link.unwaited -= 1
        self.link.inside += self.link.in_backward
        self.link.changed += not torch.equal(self.tensor.detach(), self.before)
        with torch.no_grad():
            self.tensor.copy_(self.summed)


class Link:
    """What the student gets as `all_reduce`, and the record of it."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, float, bool]] = []  # micro-batch, bytes, paint, early
        self.handles: list[weakref.ref[Sending]] = []  # the answer keeps them, or does not
        self.in_backward, self.step, self.micro = False, 0, 0
        self.inside, self.changed, self.unwaited = 0, 0, 0

    def __call__(self, tensor: torch.Tensor) -> Sending:
        """Start to sum a tensor over all ranks."""
        size = tensor.numel() * tensor.element_size()
        first = float(tensor.detach().flatten()[0])
        self.sent.append((self.micro, size, first, self.in_backward))
        self.unwaited += 1
        sending = Sending(self, tensor)
        self.handles.append(weakref.ref(sending))
        return sending

    def left_of_step_1(self) -> int:
        """How many of its handles are still there."""
        gc.collect()  # some may hang in a circle of references
        alive = [handle() for handle in self.handles]
        return sum(one is not None and one.step == 0 for one in alive)


@dataclass
class Steps:
    """What a rank saw in two steps; two that are right differ in nothing that is compared."""

    numbers: list[float]  # gradients of the first step, or weights after both
    buckets: int
    target: int  # bytes that a step needs
    starts: int  # messages of the first step
    bytes: int  # in them
    again: int  # messages of the second step
    early: int  # starts of the first step while backward ran
    inside: int  # waits while backward ran
    changed: int  # buffers that changed while they were on their way
    unwaited: int
    stale: int  # handles of the first step that are still there after the second
    hooks: int = field(compare=False)  # put on parameters
    tensor_hooks: int = field(compare=False)  # those among them that run before accumulation
    shared: str = field(compare=False)  # a variable that all hooks look up when they run
    first_micro: int = field(compare=False)
    first_bucket: int = field(compare=False)


def run(answer: Callable[..., Any], what: str) -> Steps:
    """Two steps on this rank, through a link of the check."""
    rank, n, count = dist.get_rank(), dist.get_world_size(), MICRO_BATCHES[what]
    params, optimizer = _start(what)
    buckets, link = assign_buckets(params, 24 if what == ORDER else CAP), Link()
    with hooks_seen() as hooks:
        wait = answer(buckets, link, lambda: link.micro == count - 1)
    if not callable(wait):
        raise Wrong("returns", got="None" if wait is None else f"a {type(wait).__name__}")
    shown: list[torch.Tensor] = []
    starts = 0
    for link.step in range(2):
        for link.micro in range(count):
            loss = _loss(what, params, link.step, link.micro, rank, n)
            link.in_backward = True
            _backward(loss, hooks, params)
            link.in_backward = False
        wait()
        if link.step == 0:
            starts = len(link.sent)
            shown = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in params]
        if optimizer is not None:
            optimizer.step()
            shown = [p.detach() for p in params]
        # As zero_grad(set_to_none=False): who reads a gradient too early finds the old one.
        for p in params:
            p.grad = None if p.grad is None else torch.zeros_like(p)
    first = link.sent[0] if link.sent else (0, 0, 0.0, True)
    return Steps(
        numbers=torch.cat([t.flatten() for t in shown]).tolist(),
        buckets=len(buckets),
        target=sum(p.nbytes for p in params),
        starts=starts,
        bytes=sum(size for _, size, _, _ in link.sent[:starts]),
        again=len(link.sent) - starts,
        early=sum(early for *_, early in link.sent[:starts]),
        inside=link.inside,
        changed=link.changed,
        unwaited=link.unwaited,
        stale=link.left_of_step_1(),
        hooks=len(hooks.before) + len(hooks.after),
        tensor_hooks=len(hooks.before),
        shared=hooks.shared(params),
        first_micro=first[0],
        first_bucket=2 - round(first[2] / 10**rank) if what == ORDER else 0,
    )


def _backward(loss: torch.Tensor, hooks: Hooks, params: list[nn.Parameter]) -> None:
    """Run backward; a hook that works on a gradient that is still None gets its sentence."""
    try:
        loss.backward()
    except (AttributeError, TypeError) as error:
        if "NoneType" not in str(error) or all(p.grad is not None for p in params):
            raise
        told = {"error": type(error).__name__}
        if hooks.before:
            raise Wrong("tensor_hook", **told) from error
        if hooks.shared(params):
            raise Wrong("late_bound", shared=hooks.shared(params)) from error
        raise Wrong("not_there_yet", **told) from error


def _start(what: str) -> tuple[list[nn.Parameter], torch.optim.Optimizer | None]:
    generator = torch.Generator().manual_seed(0)
    params = [
        nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))
        for shape in (((3,), (3,)) if what == ORDER else SHAPES.values())
    ]
    if what == SGD:
        return params, torch.optim.SGD(params, lr=0.1, momentum=0.9)
    return params, torch.optim.AdamW(params, lr=0.01) if what == ADAMW else None


def _loss(
    what: str, params: list[nn.Parameter], step: int, micro: int, rank: int, n: int
) -> torch.Tensor:
    """Painted: 10**r times the sum of all parameters. Else a small network's loss on real data."""
    if what in (SGD, ADAMW):
        generator = torch.Generator().manual_seed(7 + step)
        x, y = (torch.randn(24, k, generator=generator, dtype=torch.float64) for k in (3, 1))
        x, y = (part.chunk(n)[rank].chunk(2)[micro] for part in (x, y))
        for weight, bias in zip(params[::2], params[1::2], strict=True):
            x = torch.tanh(F.linear(x, weight, bias))
        return F.mse_loss(x, y) / 2
    places = list(range(len(params)))
    if what == ORDER and rank % 2:
        places.reverse()
    total = torch.zeros((), dtype=torch.float64)
    for k in places:
        total = total + params[k].sum() * (k + 1 if what == ORDER else 1)
    return total * 10.0**rank * WEIGHTS[micro]
