"""More answers to `clipped_step`, for the tests alone."""

import math

import torch
from torch.nn.utils import clip_grad_norm_, get_total_norm

from ..exercises.clipped import clipped_step
from ..exercises.patient import step


def forgets_update(scaler, weights, optimizer, loss, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    return norm


def length_of_the_clipped(scaler, weights, optimizer, loss, max_norm):
    clipped_step(scaler, weights, optimizer, loss, max_norm)
    return get_total_norm([w.grad for w in weights])


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
    norm = math.sqrt(sum(float(w.grad.double().square().sum()) for w in weights))
    if norm > max_norm:
        for w in weights:
            w.grad = w.grad * (max_norm / norm)
    scaler.step(optimizer)
    scaler.update()
    return norm


ALSO_WRONG = [
    ("clip_scaled", step),
    ("moved", lambda *given: clipped_step(*given[:4], given[4] / 2)),
    ("norm", length_of_the_clipped),
    ("no_update", forgets_update),
    ("no_step", lambda *given: 10.0),
    ("kind", lambda *given: (clipped_step(*given), given[4])),
    ("raised", lambda *given: given[9]),
]
ALSO_RIGHT = [clips_at_a_scaled_length, clips_by_hand]
