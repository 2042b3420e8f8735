"""Exercise 4.5: a step with loss scaling and a clip, in the order that keeps the clip true.

The gradient has length 10 over two tensors, (2, 4) and (4, 8), and is clipped to 1 at a scale of
1024: every order and every forgotten call leaves other numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.scratch.loss_scaling import LossScaler

GRADIENTS = ((2.0, 4.0), (4.0, 8.0))
SCALE, NORM = 1024.0, 10.0
CASE = "gradient (2, 4, 4, 8), whose length is 10, max_norm 1, scale 1024, lr 1"
# What the weights moved by, where the order is wrong.
MOVED = {
    "clip_scaled": tuple(g / NORM / SCALE for g in (2, 4, 4, 8)),
    "not_clipped": (2.0, 4.0, 4.0, 8.0),
    "by_value": (1.0, 1.0, 1.0, 1.0),
    "separately": tuple(g / math.sqrt(s) for g, s in ((2, 20), (4, 20), (4, 80), (8, 80))),
    "loss_unscaled": tuple(g / SCALE for g in (2, 4, 4, 8)),
    "still_scaled": tuple(g * SCALE for g in (2, 4, 4, 8)),
    "no_step": (0.0, 0.0, 0.0, 0.0),
    "right": (0.2, 0.4, 0.4, 0.8),
}


def reference(
    scaler: Any,
    weights: list[torch.nn.Parameter],
    optimizer: torch.optim.Optimizer,
    loss: torch.Tensor,
    max_norm: float,
) -> float:
    """Scale, go backward, unscale, clip, step, update; return the true length."""
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()


def check(student: Callable[..., Any]) -> Passed:
    """A long gradient, a short one, two in a row, one that overflows, and torch's own scaler."""
    norm = _long(student, LossScaler(SCALE), CASE)
    _short(student)
    _two_in_a_row(student)
    _overflow(student)
    _long(student, torch.amp.GradScaler("cpu", init_scale=SCALE), f"torch's GradScaler, {CASE}")
    return Passed((("length that the clip saw", norm, NORM, ""),))


def _problem(factor: float = 1.0) -> tuple[list[torch.nn.Parameter], Any, torch.Tensor]:
    """Weights at 0, plain SGD with rate 1, and a loss whose gradient is painted."""
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in GRADIENTS]
    optimizer = torch.optim.SGD(weights, lr=1.0)
    return weights, optimizer, _loss(weights, factor)


def _loss(weights: list[torch.nn.Parameter], factor: float) -> torch.Tensor:
    terms = [(w * torch.tensor(g)).sum() for w, g in zip(weights, GRADIENTS, strict=True)]
    return torch.stack(terms).sum() * factor


def _moved(weights: list[torch.nn.Parameter]) -> tuple[float, ...]:
    return tuple(-v for w in weights for v in w.detach().tolist())


def _near(got: tuple[float, ...], want: tuple[float, ...]) -> bool:
    # clip_grad_norm_ divides by the length plus 1e-6
    return all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-12) for a, b in zip(got, want))  # noqa: B905


def _long(student: Callable[..., Any], scaler: Any, case: str) -> float:
    weights, optimizer, loss = _problem()
    answer = ask(student, scaler, weights, optimizer, loss, 1.0, case=case)
    moved = _moved(weights)
    facts = {"got": _words(moved), "times": f"{max(moved, default=0) / 0.8:.3g}"}
    key = next((name for name, want in MOVED.items() if _near(moved, want)), None)
    if key == "clip_scaled":
        key = _who_made_it_small(answer)
    if key == "not_clipped" and _near(_gradients(weights), MOVED["right"]):
        key = "too_late"
    if key is None:
        raise Wrong("moved", case, **facts)
    if key != "right":
        raise Wrong(key, case, **facts)
    norm = to_number(answer, case, nan=True)
    if not math.isclose(norm, NORM, rel_tol=1e-4):
        raise Wrong("norm", case, got=f"{norm:g}")
    return round(norm, 4)


def _who_made_it_small(answer: Any) -> str:
    """1024 times too short a step: clipped too early, or divided once more after the clip."""
    try:
        saw = float(answer)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        saw = NORM * SCALE
    return "unscaled_twice" if math.isclose(saw, NORM, rel_tol=1e-4) else "clip_scaled"


def _gradients(weights: list[torch.nn.Parameter]) -> tuple[float, ...]:
    return tuple(v for w in weights if w.grad is not None for v in w.grad.tolist())


def _words(values: tuple[float, ...]) -> str:
    return ", ".join(f"{v:.3g}" for v in values)


def _short(student: Callable[..., Any]) -> None:
    """Below max_norm nothing is clipped, and nothing is stretched."""
    case = "gradient (0.1, 0.2, 0.2, 0.4), whose length is 0.5, max_norm 1"
    weights, optimizer, loss = _problem(0.05)
    ask(student, LossScaler(SCALE), weights, optimizer, loss, 1.0, case=case)
    moved = _moved(weights)
    if not _near(moved, (0.1, 0.2, 0.2, 0.4)):
        key = "stretched" if _near(moved, MOVED["right"]) else "moved"
        raise Wrong(key, case, got=_words(moved))


def _two_in_a_row(student: Callable[..., Any]) -> None:
    """The scaler is told that a step is over: growth after one good step shows it."""
    case = "two steps in a row, growth_interval 1"
    scaler = LossScaler(SCALE, growth_interval=1)
    weights, optimizer, loss = _problem()
    ask(student, scaler, weights, optimizer, loss, 1.0, case=case)
    if scaler.value == SCALE:
        raise Wrong("no_update", case, scale=f"{SCALE:g}")
    optimizer.zero_grad()
    ask(student, scaler, weights, optimizer, _loss(weights, 1.0), 1.0, case=case)
    if not _near(_moved(weights), tuple(2 * v for v in MOVED["right"])):
        raise Wrong("moved", case, got=_words(_moved(weights)))


def _overflow(student: Callable[..., Any]) -> None:
    case = "a gradient that is infinite after scaling"
    scaler = LossScaler(2.0**127)
    weights, optimizer, loss = _problem()
    ask(student, scaler, weights, optimizer, loss, 1.0, case=case)
    moved = _moved(weights)
    if any(v != 0 for v in moved):
        raise Wrong("stepped", case, got=_words(moved))
    if scaler.value != 2.0**126:
        raise Wrong("no_update", case, scale="2^127")
