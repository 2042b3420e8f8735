"""More answers to `clipped_step`, for the tests alone."""

import math

from ..exercises.clipped import clipped_step
from ..exercises.patient import step


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
    # the length of the clipped gradients
    ("norm", {"norm.item()": "torch.nn.utils.get_total_norm([w.grad for w in weights]).item()"}),
    ("no_update", {"    scaler.update()\n": ""}),
    ("no_step", lambda *given: 10.0),
    ("kind", lambda *given: (clipped_step(*given), given[4])),
    ("raised", lambda *given: given[9]),
]
ALSO_RIGHT = [
    # clips scaled gradients to a scaled length: the same, for one who knows the scale
    {
        "scaler.unscale_(optimizer)": "scale = scaler.scale(torch.ones(())).item()",
        "(weights, max_norm)": "(weights, max_norm * scale) / scale",
    },
    clips_by_hand,
]
