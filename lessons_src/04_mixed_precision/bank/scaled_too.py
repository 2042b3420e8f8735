"""More answers to lesson 04's exercise on loss scaling, to be refused or accepted."""

import torch

from .scaled import after, divide, gradients_of, stepped_if


def sees_only_the_last(weights, optimizer, scale, good, interval):
    ok = bool(gradients_of(weights)[-1].isfinite().all())
    return stepped_if(ok, weights, optimizer, scale, good, interval)


# Right.
def by_grad_scaler(weights, optimizer, scale, good, interval):
    """Let torch's own take this one step, with the count put into it."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    scaler.scale(torch.ones(()))
    scaler._growth_tracker.fill_(good)
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale(), int(scaler._growth_tracker)


def by_zero_times(weights, optimizer, scale, good, interval):
    """0 times infinity is nan, and nan is not itself."""
    divide(weights, scale)
    probe = sum((0 * g).sum() for g in gradients_of(weights))
    ok = bool(probe == probe)
    if ok:
        optimizer.step()
    return after(ok, scale, good, interval)


ALSO_WRONG = [
    ("scaled_step", "one_weight", sees_only_the_last),
]

RIGHT = [
    ("scaled_step", by_grad_scaler),
    ("scaled_step", by_zero_times),
]
