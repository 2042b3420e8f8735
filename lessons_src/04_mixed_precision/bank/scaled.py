"""More answers to `scaled_step`, for the tests alone."""

import torch
from torch.nn.utils import get_total_norm

from ..exercises.scaled import scaled_step

# words of the solution
FINITE, SKIP = "finite = all(g.isfinite().all() for g in gradients)", "return scale / 2, 0"


def finite(weights):
    return all(bool(w.grad.isfinite().all()) for w in weights if w.grad is not None)


def steps_half(weights, optimizer, scale, good, interval):
    return scaled_step(weights, optimizer, 2.0, good, interval)


def count_from_one(weights, optimizer, scale, good, interval):
    scale, good = scaled_step(weights, optimizer, scale, good, interval)
    return scale, 1 if good == 0 and finite(weights) else good


def replaces_by_large_ones(weights, optimizer, scale, good, interval):
    bad = not finite(weights)
    for w in weights:
        w.grad.nan_to_num_(nan=1.0, posinf=1e4, neginf=-1e4)
    after = scaled_step(weights, optimizer, scale, good, interval)
    return (scale / 2, 0) if bad else after


def leaves_the_decay(weights, optimizer, scale, good, interval):
    """Skips by a step with the rate at 0, which moves AdamW's moments and counters all the same."""
    if finite(weights) or type(optimizer).__name__ == "SGD":
        return scaled_step(weights, optimizer, scale, good, interval)
    for w in weights:
        w.grad.zero_()
    (group,) = optimizer.param_groups
    rate, group["lr"] = group["lr"], 0.0
    optimizer.step()
    group["lr"] = rate
    return scale / 2, 0


def by_total_norm(weights, optimizer, scale, good, interval):
    gradients = [w.grad.double() for w in weights if w.grad is not None]
    if not get_total_norm(gradients).isfinite():
        return [scale * 0.5, 0]
    for w in weights:
        if w.grad is not None:
            w.grad = w.grad * (1 / scale)
    optimizer.step()
    good = (good + 1) % interval
    return [scale * (1 if good else 2), good]


def by_grad_scaler(weights, optimizer, scale, good, interval):
    """Let torch's own take this one step, with the count put into it."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    scaler.scale(torch.ones(()))
    scaler._growth_tracker.fill_(good)
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale(), int(scaler._growth_tracker)


ALSO_WRONG = [
    ("step", steps_half),
    ("growth", count_from_one),
    ("replaced", replaces_by_large_ones),
    ("apart", leaves_the_decay),
    ("kind", lambda *given: scaled_step(*given)[0]),
    ("kind", lambda *given: (None, "1")),
    ("none", lambda *given: print(end="")),
    ("raised", lambda *given: given[9]),
]
ALSO_RIGHT = [
    by_total_norm,
    by_grad_scaler,
    {FINITE: "flat = torch.cat([g.flatten() for g in gradients])\n    "
             "finite = not (flat.isinf().any() or flat.isnan().any())",
     SKIP: "optimizer.zero_grad(); return torch.tensor(scale) / 2, torch.tensor(0)"},
    # 0 times infinity is nan, and nan is not 0
    {FINITE: "finite = sum((0 * g).sum() for g in gradients) == 0"},
]  # fmt: skip

# The same mistake twice, as two students would write it: nan is seen, and infinity is not.
PASTED = """\
def scaled_step(weights, optimizer, scale, good, growth_interval):
    gradients = [w.grad for w in weights if w.grad is not None]
    {test}
    for g in gradients:
        g /= scale
    if bad:
        return scale / 2, 0
    optimizer.step()
    if good + 1 == growth_interval:
        return scale * 2, 0
    return scale, good + 1"""
LADDER = (
    PASTED.format(test="bad = any(g.isnan().any() for g in gradients)"),
    PASTED.format(test="bad = not all((g == g).all() for g in gradients)"),
)
