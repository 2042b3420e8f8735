"""Answers to lesson 04's patient that its check must refuse, or accept, and the ladder's two.

Each wrong answer stands under the key of the sentence that it must get.
"""

import math

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm

# The same mistake twice, as two students would write it: nan is seen, and infinity is not.
_PASTED = """\
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
    "scaled_step",
    _PASTED.format(test="bad = any(g.isnan().any() for g in gradients)"),
    _PASTED.format(test="bad = not all((g == g).all() for g in gradients)"),
)


def gradients_of(weights):
    return [w.grad for w in weights]


# --- 4.5 clipped_step -----------------------------------------------------------------------


def clips_first(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    norm = clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


def divides_by_hand(scaler, weights, optimizer, loss, max_norm):
    scaled = scaler.scale(loss)
    scaled.backward()
    for w in weights:
        w.grad /= (scaled / loss).item() if loss else scaler.scale(torch.ones(())).item()
    norm = clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


def never_clips(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = get_total_norm(gradients_of(weights))
    scaler.step(optimizer)
    scaler.update()
    return norm


def clips_late(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    norm = clip_grad_norm_(weights, max_norm)
    scaler.update()
    return norm


def clips_values(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = get_total_norm(gradients_of(weights))
    clip_grad_value_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


def clips_each(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norms = torch.stack([clip_grad_norm_([w], max_norm) for w in weights])
    scaler.step(optimizer)
    scaler.update()
    return norms.norm()


def forgets_to_scale(scaler, weights, optimizer, loss, max_norm):
    loss.backward()
    scaler.scale(torch.ones(()))
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


def forgets_to_unscale(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    norm = get_total_norm(gradients_of(weights))
    optimizer.step()
    return norm


def forgets_the_step(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, max_norm)
    scaler.update()
    return norm


def clips_to_half(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, max_norm / 2)
    scaler.step(optimizer)
    scaler.update()
    return norm


def length_of_the_clipped(scaler, weights, optimizer, loss, max_norm):
    right_order(scaler, weights, optimizer, loss, max_norm)
    return get_total_norm(gradients_of(weights))


def always_to_max_norm(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = get_total_norm(gradients_of(weights))
    for w in weights:
        w.grad *= max_norm / norm
    scaler.step(optimizer)
    scaler.update()
    return norm


def forgets_update(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    return norm


def steps_by_itself(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, max_norm)
    optimizer.step()
    scaler.update()
    return norm


def returns_a_pair(scaler, weights, optimizer, loss, max_norm):
    return right_order(scaler, weights, optimizer, loss, max_norm), max_norm


# Right.
def right_order(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


def clips_at_a_scaled_length(scaler, weights, optimizer, loss, max_norm):
    """Clip scaled gradients to a scaled length: the same, for one who knows the scale."""
    scale = scaler.scale(torch.ones(())).item()
    scaler.scale(loss).backward()
    norm = clip_grad_norm_(weights, max_norm * scale) / scale
    scaler.step(optimizer)
    scaler.update()
    return float(norm)


def clips_by_hand(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients_of(weights)))
    if norm > max_norm:
        for w in weights:
            w.grad = w.grad * (max_norm / norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


WRONG = [
    ("clipped_step", "clip_scaled", clips_first),
    ("clipped_step", "unscaled_twice", divides_by_hand),
    ("clipped_step", "not_clipped", never_clips),
    ("clipped_step", "too_late", clips_late),
    ("clipped_step", "by_value", clips_values),
    ("clipped_step", "separately", clips_each),
    ("clipped_step", "loss_unscaled", forgets_to_scale),
    ("clipped_step", "still_scaled", forgets_to_unscale),
    ("clipped_step", "no_step", forgets_the_step),
    ("clipped_step", "moved", clips_to_half),
    ("clipped_step", "norm", length_of_the_clipped),
    ("clipped_step", "stretched", always_to_max_norm),
    ("clipped_step", "no_update", forgets_update),
    ("clipped_step", "stepped", steps_by_itself),
    ("clipped_step", "kind", returns_a_pair),
]

ALSO_WRONG = [
    ("clipped_step", "no_step", lambda *given: 10.0),
    ("clipped_step", "raised", lambda *given: given[9]),
]

RIGHT = [
    ("clipped_step", right_order),
    ("clipped_step", clips_at_a_scaled_length),
    ("clipped_step", clips_by_hand),
]
