"""Exercise 4.5: a step with loss scaling and a clip, in the order that keeps the clip true.

The gradient has length 10 over two tensors, (2, 4) and (4, 8), and is clipped to 1 at a scale of
1024: every order and every forgotten call leaves other numbers.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from dtlib.learn.alike import alike
from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.scratch.loss_scaling import LossScaler

GRADIENTS, CLIPPED = ((2.0, 4.0), (4.0, 8.0)), (0.2, 0.4, 0.4, 0.8)
SCALE, NORM = 1024.0, 10.0
LONG = "gradient (2, 4, 4, 8), whose length is 10, max_norm 1, scale 1024, lr 1"
CLOSE = 1e-4  # clip_grad_norm_ divides by the length plus 1e-6
# words of the solution, and calls that stand in for the clip
UNSCALE, STEP = "    scaler.unscale_(optimizer)\n", "    scaler.step(optimizer)\n"
CLIP = "torch.nn.utils.clip_grad_norm_(weights, max_norm)"
LENGTH = "torch.nn.utils.get_total_norm([w.grad for w in weights])"

clipped_step = solution("clipped_step", globals())


@dataclass
class Step:
    """What a step left behind."""

    moved: tuple[float, ...]
    scale: float
    norm: Any  # a number, or the Wrong that says why it is none
    clipped: bool  # whether .grad holds the clipped gradient in the end


def world(make, factor=1, steps=1):
    """Arguments of `run`; an optimizer is made here, before a clock runs: its first takes long."""

    def arguments():
        weights = [torch.nn.Parameter(torch.zeros(2)) for _ in GRADIENTS]
        return make(), weights, torch.optim.SGD(weights, lr=1.0), factor, steps

    return arguments


def run(answer, scaler, weights, optimizer, factor, steps):
    """Take steps with plain SGD from weights at 0; the gradient is `GRADIENTS` times a factor."""
    for _ in range(steps):
        optimizer.zero_grad()
        terms = [(w * torch.tensor(g)).sum() for w, g in zip(weights, GRADIENTS, strict=True)]
        norm = answer(scaler, weights, optimizer, torch.stack(terms).sum() * factor, 1.0)
        scale = scaler.value if isinstance(scaler, LossScaler) else scaler.get_scale()
        if steps > 1 and scale == SCALE:  # without an update a second step may not be taken
            raise Wrong("no_update", scale=f"{SCALE:g}")
    try:
        norm = to_number(norm, nan=True)
    except Wrong as wrong:
        norm = wrong
    gradients = [v for w in weights if w.grad is not None for v in w.grad.tolist()]
    moved = tuple(-v for w in weights for v in w.detach().tolist())
    return Step(moved, scale, norm, alike(gradients, CLIPPED, CLOSE))


def judge(got, want):
    """The weights first, then the scale, then what was returned for the true length."""
    if not alike(got.moved, want.moved, CLOSE):
        return False
    if got.scale != want.scale:
        return Wrong("no_update", scale="2^127")
    if isinstance(got.norm, Wrong):
        return got.norm
    if math.isfinite(want.norm) and not alike(got.norm, want.norm, CLOSE):
        return Wrong("norm", got=f"{got.norm:g}", want=f"{want.norm:g}")
    return True


EXERCISE = Answer(
    clipped_step,
    other="moved",
    run=run,
    judge=judge,
    same=lambda a, b: a.clipped == b.clipped and alike(a.moved, b.moved, CLOSE),
    cases=[
        (LONG, world(lambda: LossScaler(SCALE))),
        ("gradient (0.1, 0.2, 0.2, 0.4), whose length is 0.5, max_norm 1",
         world(lambda: LossScaler(SCALE), factor=0.05)),
        ("two steps in a row, growth_interval 1",
         world(lambda: LossScaler(SCALE, growth_interval=1), steps=2)),
        ("a gradient that is infinite after scaling", world(lambda: LossScaler(2.0**127)),
         "stepped"),
        (f"torch's GradScaler, {LONG}",
         world(lambda: torch.amp.GradScaler("cpu", init_scale=SCALE))),
    ],
    mistakes=[
        ("clip_scaled", {UNSCALE: ""}),
        ("unscaled_twice", {UNSCALE: "    scale = scaler.scale(torch.ones(())).item()\n"
                                     "    for w in weights:\n        w.grad /= scale\n"}),
        ("not_clipped", {CLIP: LENGTH}),
        ("too_late", {STEP: "", f"    norm = {CLIP}\n": f"{STEP}    norm = {CLIP}\n"}),
        ("by_value", {CLIP: f"{LENGTH}\n    torch.nn.utils.clip_grad_value_(weights, max_norm)"}),
        ("separately", {CLIP: CLIP.replace("weights", "[w]").join(
            ("torch.stack([", " for w in weights]).norm()"))}),
        ("loss_unscaled", {"scaler.scale(loss).backward()": "loss.backward(), scaler.scale(loss)"}),
        ("still_scaled", {UNSCALE: "", CLIP: LENGTH, STEP: "", "scaler.update": "optimizer.step"}),
        Mistake("no_step", {STEP: ""}, when=lambda got: not any(got.moved)),
        ("stretched", {CLIP: f"{LENGTH}\n    for w in weights: w.grad *= max_norm / norm"}),
        ("stepped", {STEP: "    optimizer.step()\n"}),
    ],
    facts=lambda got: {"got": ", ".join(f"{v:.3g}" for v in got.moved)},
    passed=lambda got: Passed((("length that the clip saw", round(got[0].norm, 4), NORM, ""),)),
)  # fmt: skip
