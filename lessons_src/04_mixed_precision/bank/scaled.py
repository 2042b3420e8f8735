"""Answers to lesson 04's exercise on loss scaling that its check must refuse, or accept.

Each wrong answer stands under the key of the sentence that it must get.
"""

import math

import torch
from torch.nn.utils import get_total_norm


def gradients_of(weights):
    return [w.grad for w in weights if w.grad is not None]


def finite(weights):
    return all(bool(g.isfinite().all()) for g in gradients_of(weights))


def divide(weights, scale):
    for g in gradients_of(weights):
        g /= scale


def after(ok, scale, good, interval):
    """The right next scale and count."""
    if not ok:
        return scale / 2, 0
    return (scale * 2, 0) if good + 1 == interval else (scale, good + 1)


def stepped_if(ok, weights, optimizer, scale, good, interval):
    divide(weights, scale)
    if ok:
        optimizer.step()
    return after(ok, scale, good, interval)


# --- 4.2 scaled_step ------------------------------------------------------------------------


def never_divides(weights, optimizer, scale, good, interval):
    return stepped_if(finite(weights), weights, optimizer, 1.0, good, interval)[0] * scale, good + 1


def multiplies(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    divide(weights, 1 / scale)
    if ok:
        optimizer.step()
    return after(ok, scale, good, interval)


def divides_twice(weights, optimizer, scale, good, interval):
    divide(weights, scale)
    return stepped_if(finite(weights), weights, optimizer, scale, good, interval)


def never_steps(weights, optimizer, scale, good, interval):
    divide(weights, scale)
    return after(finite(weights), scale, good, interval)


def steps_twice(weights, optimizer, scale, good, interval):
    answer = stepped_if(finite(weights), weights, optimizer, scale, good, interval)
    if finite(weights):
        optimizer.step()
    return answer


@torch.no_grad()
def adds_the_gradient(weights, optimizer, scale, good, interval):
    for w in weights:
        w += w.grad / scale
    return after(True, scale, good, interval)


def steps_half(weights, optimizer, scale, good, interval):
    divide(weights, 2)
    return stepped_if(finite(weights), weights, optimizer, scale, good, interval)


def grows_every_time(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    stepped_if(ok, weights, optimizer, scale, good, interval)
    return (scale * 2, good + 1) if ok else (scale / 2, 0)


def never_counts(weights, optimizer, scale, good, interval):
    scale, _ = stepped_if(finite(weights), weights, optimizer, scale, good, interval)
    return scale, good


def never_doubles(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    stepped_if(ok, weights, optimizer, scale, good, interval)
    return (scale, good + 1) if ok else (scale / 2, 0)


def asks_before_counting(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    stepped_if(ok, weights, optimizer, scale, good, interval)
    if not ok:
        return scale / 2, 0
    return (scale * 2, 0) if good == interval else (scale, good + 1)


def one_too_early(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    stepped_if(ok, weights, optimizer, scale, good, interval)
    return after(ok, scale, good, interval - 1)


def count_goes_on(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    stepped_if(ok, weights, optimizer, scale, good, interval)
    if not ok:
        return scale / 2, 0
    return (scale * 2 if good + 1 >= interval else scale), good + 1


def count_from_one(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    stepped_if(ok, weights, optimizer, scale, good, interval)
    if not ok:
        return scale / 2, 0
    return (scale * 2, 1) if good + 1 == interval else (scale, good + 1)


def always_steps(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    stepped_if(True, weights, optimizer, scale, good, interval)
    return after(ok, scale, good, interval)


def replaces_infinity(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    for g in gradients_of(weights):
        g.copy_(g.nan_to_num(nan=1.0, posinf=1e4, neginf=-1e4))
    stepped_if(True, weights, optimizer, scale, good, interval)
    return after(ok, scale, good, interval)


def sees_only_nan(weights, optimizer, scale, good, interval):
    ok = not any(g.isnan().any() for g in gradients_of(weights))
    return stepped_if(ok, weights, optimizer, scale, good, interval)


def sees_only_infinity(weights, optimizer, scale, good, interval):
    ok = not any(g.isinf().any() for g in gradients_of(weights))
    return stepped_if(ok, weights, optimizer, scale, good, interval)


def sees_only_plus(weights, optimizer, scale, good, interval):
    ok = all(bool((g < math.inf).all()) for g in gradients_of(weights))
    return stepped_if(ok, weights, optimizer, scale, good, interval)


def sees_only_the_first(weights, optimizer, scale, good, interval):
    ok = bool(weights[0].grad.isfinite().all())
    return stepped_if(ok, weights, optimizer, scale, good, interval)


def sees_one_element(weights, optimizer, scale, good, interval):
    ok = all(bool(g.flatten()[0].isfinite()) for g in gradients_of(weights))
    return stepped_if(ok, weights, optimizer, scale, good, interval)


def after_a_skip(given, bad):
    weights, _, scale, good, _ = given
    return stepped_if(True, *given) if finite(weights) else bad(scale, good)


def keeps_the_scale(*given):
    return after_a_skip(given, lambda scale, good: (scale, 0))


def doubles_on_overflow(*given):
    return after_a_skip(given, lambda scale, good: (scale * 2, 0))


def falls_to_one(*given):
    return after_a_skip(given, lambda scale, good: (1.0, 0))


def counts_skips(*given):
    return after_a_skip(given, lambda scale, good: (scale / 2, good + 1))


def keeps_the_count(*given):
    return after_a_skip(given, lambda scale, good: (scale / 2, good))


def steps_with_zeros(weights, optimizer, scale, good, interval):
    ok = finite(weights)
    if not ok:
        for g in gradients_of(weights):
            g.zero_()
    stepped_if(True, weights, optimizer, scale, good, interval)
    return after(ok, scale, good, interval)


def ends_where_fp16_does(weights, optimizer, scale, good, interval):
    ok = all(bool((g.abs() < 65520).all()) for g in gradients_of(weights))
    return stepped_if(ok, weights, optimizer, scale, good, interval)


def expects_a_gradient(weights, optimizer, scale, good, interval):
    ok = all(bool(w.grad.isfinite().all()) for w in weights)
    return stepped_if(ok, weights, optimizer, scale, good, interval)


def leaves_the_decay(weights, optimizer, scale, good, interval):
    """Skips by a step with the rate at 0, which moves AdamW's moments and counters all the same."""
    if finite(weights):
        return stepped_if(True, weights, optimizer, scale, good, interval)
    if type(optimizer).__name__ == "SGD":
        return scale / 2, 0
    for g in gradients_of(weights):
        g.zero_()
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    return scale / 2, 0


def scale_alone(weights, optimizer, scale, good, interval):
    return stepped_if(finite(weights), weights, optimizer, scale, good, interval)[0]


# Right.
def by_total_norm(weights, optimizer, scale, good, interval):
    gradients = [g.double() for g in gradients_of(weights)]
    if not get_total_norm(gradients).isfinite():
        return [scale * 0.5, 0]
    for w in weights:
        if w.grad is not None:
            w.grad = w.grad * (1 / scale)
    optimizer.step()
    good = (good + 1) % interval
    return [scale * (1 if good else 2), good]


def by_one_vector(weights, optimizer, scale, good, interval):
    flat = torch.cat([w.grad.flatten() for w in weights if w.grad is not None])
    if flat.isinf().any() or flat.isnan().any():
        optimizer.zero_grad()
        return torch.tensor(scale) / 2, torch.tensor(0)
    divide(weights, scale)
    optimizer.step()
    return after(True, scale, good, interval)


WRONG = [
    ("scaled_step", "still_scaled", never_divides),
    ("scaled_step", "multiplied", multiplies),
    ("scaled_step", "divided_twice", divides_twice),
    ("scaled_step", "no_step", never_steps),
    ("scaled_step", "two_steps", steps_twice),
    ("scaled_step", "uphill", adds_the_gradient),
    ("scaled_step", "step", steps_half),
    ("scaled_step", "grows_at_once", grows_every_time),
    ("scaled_step", "count", never_counts),
    ("scaled_step", "never_grows", never_doubles),
    ("scaled_step", "grows_late", asks_before_counting),
    ("scaled_step", "grows_early", one_too_early),
    ("scaled_step", "count_goes_on", count_goes_on),
    ("scaled_step", "growth", count_from_one),
    ("scaled_step", "stepped", always_steps),
    ("scaled_step", "replaced", replaces_infinity),
    ("scaled_step", "only_nan", sees_only_nan),
    ("scaled_step", "only_infinity", sees_only_infinity),
    ("scaled_step", "only_plus", sees_only_plus),
    ("scaled_step", "one_weight", sees_only_the_first),
    ("scaled_step", "one_element", sees_one_element),
    ("scaled_step", "no_backoff", keeps_the_scale),
    ("scaled_step", "wrong_way", doubles_on_overflow),
    ("scaled_step", "backoff", falls_to_one),
    ("scaled_step", "skip_counts", counts_skips),
    ("scaled_step", "count_kept", keeps_the_count),
    ("scaled_step", "zero_step", steps_with_zeros),
    ("scaled_step", "too_strict", ends_where_fp16_does),
    ("scaled_step", "no_gradient", expects_a_gradient),
    ("scaled_step", "apart", leaves_the_decay),
    ("scaled_step", "kind", scale_alone),
]

ALSO_WRONG = [
    ("scaled_step", "none", lambda *given: print(end="")),
    ("scaled_step", "kind", lambda *given: (None, "1")),
    ("scaled_step", "raised", lambda *given: given[9]),
]

RIGHT = [
    ("scaled_step", by_total_norm),
    ("scaled_step", by_one_vector),
]
