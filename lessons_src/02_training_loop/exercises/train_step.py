"""Exercise 2.1: one training step, told from its neighbours by what it does to the weights.

A model of 3·4 + 4·3 weights with a batch norm between them takes three steps in fp64. It comes in
evaluation mode and with a gradient left over, as a loop that has just evaluated may hand it on.
Where the weights are not those of the right step, known mistakes take the same three steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.learn.checking import Passed, Wrong

from .returned import close, number_of

SIZES = (4, 4, 3)
LR = 0.5
Step = Callable[[nn.Module, torch.optim.Optimizer, Tensor, Tensor], Any]


def reference(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> float:
    """Train mode, clear gradients, forward, backward, step."""
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def _known(
    *, train: bool = True, zero: bool = True, twice: bool = False, fresh: bool = False,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
) -> Step:  # fmt: skip
    """A step with one mistake in it."""

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> float:
        model.train(train)
        if zero:
            optimizer.zero_grad()
        for _ in range(1 + twice):
            value = loss(model(x), y)
            value.backward()
        own = torch.optim.SGD(model.parameters(), LR) if fresh else optimizer
        own.step()
        return value.item()

    return step


KNOWN: dict[str, Step] = {
    "no_zero_grad": _known(zero=False),
    "eval_mode": _known(train=False),
    "softmax_twice": _known(loss=lambda z, y: F.cross_entropy(z.softmax(1), y)),
    "sum": _known(loss=lambda z, y: F.cross_entropy(z, y, reduction="sum")),
    "no_log": _known(loss=lambda z, y: F.nll_loss(z, y)),
    "twice": _known(twice=True),
    "own_optimizer": _known(fresh=True),
}


@dataclasses.dataclass
class Trace:
    """What three steps returned, left in the weights, and did in which order."""

    losses: list[float] = dataclasses.field(default_factory=list)
    after: list[float] = dataclasses.field(default_factory=list)  # the loss with the new weights
    weights: list[Tensor] = dataclasses.field(default_factory=list)
    events: list[list[str]] = dataclasses.field(default_factory=list)

    def moves_like(self, other: Trace, steps: int) -> bool:
        return all(
            torch.allclose(a, b, rtol=1e-9, atol=1e-11)
            for a, b in zip(self.weights[: steps + 1], other.weights[: steps + 1], strict=True)
        )


def check(student: Step) -> Passed:
    """Take three steps with the student's function and compare weights and losses."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for so small a model more of them only wait
    try:
        return _compare(student)
    finally:
        torch.set_num_threads(threads)


def _compare(student: Step) -> Passed:
    want = _trace(reference)
    got = _trace(student)
    for k, case in enumerate(map(_case, range(len(SIZES)))):
        if not got.moves_like(want, k + 1):
            raise _why_the_weights(got, want, k, case)
        if not close(got.losses[k], want.losses[k]):
            raise _why_the_loss(got, want, k, case)
    return Passed(note="Three steps with momentum: the weights of the reference to 1e-9, in fp64.")


def _case(k: int) -> str:
    return f"step {k + 1}, {SIZES[k]} pictures"


def _trace(step: Step) -> Trace:
    model, optimizer, batches = _setup()
    trace = Trace(weights=[_flat(model)])
    events: list[str] = []
    # One name for each weight that backward reaches, however many calls it takes.
    next(model.parameters()).register_hook(lambda _: events.append("backward"))
    optimizer.register_step_pre_hook(lambda *_: events.append("step"))
    for k, (x, y) in enumerate(batches):
        events.clear()
        with torch.enable_grad():
            trace.losses.append(number_of(step(model, optimizer, x, y), _case(k)))
        trace.weights.append(_flat(model))
        trace.events.append([*events, "gradient"] if _has_gradient(model) else list(events))
        trace.after.append(_loss_in_train_mode(model, x, y))
    return trace


def _setup() -> tuple[nn.Module, torch.optim.Optimizer, list[tuple[Tensor, Tensor]]]:
    generator = torch.Generator().manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    for p in model.parameters():
        p.data = drawn(*p.shape)
        p.grad = drawn(*p.shape)
    model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    batches = [(drawn(n, 3), torch.arange(n) % 3) for n in SIZES]
    return model, optimizer, batches


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def _has_gradient(model: nn.Module) -> bool:
    return any(p.grad is not None and bool(p.grad.any()) for p in model.parameters())


def _loss_in_train_mode(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The loss after the step; batch norm's averages stay as they are."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    mode = model.training
    with torch.no_grad():
        loss = F.cross_entropy(model.train()(x), y).item()
    model.load_state_dict(kept)
    model.train(mode)
    return loss


def _why_the_weights(got: Trace, want: Trace, k: int, case: str) -> Wrong:
    events = got.events[k]
    facts = {"loss": got.losses[k], "want": want.losses[k], "step": k + 1, "size": SIZES[k]}
    for key, step in KNOWN.items():
        if got.moves_like(_trace(step), k + 1):
            return Wrong(key, case, **facts)
    if "backward" not in events:
        return Wrong("no_backward", case, **facts)
    if "step" not in events:
        return Wrong("no_step", case, **facts)
    if events.index("step") < events.index("backward"):
        return Wrong("step_first", case, **facts)
    if torch.equal(got.weights[k], got.weights[k + 1]):
        return Wrong("cleared", case, **facts)
    apart = float((got.weights[k + 1] - want.weights[k + 1]).abs().max())
    return Wrong("unrecognised", case, seen=f"a weight is off by {apart:.3g} after {case}")


def _why_the_loss(got: Trace, want: Trace, k: int, case: str) -> Wrong:
    loss, right, size = got.losses[k], want.losses[k], SIZES[k]
    facts = {"loss": loss, "want": right, "size": size}
    if close(loss, want.after[k]):
        return Wrong("loss_after", case, **facts)
    if close(loss, right * size):
        return Wrong("loss_sum", case, **facts)
    return Wrong("loss_other", case, **facts)
