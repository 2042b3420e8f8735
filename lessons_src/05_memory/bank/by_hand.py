"""More answers to `mlp_bytes`, for the tests alone."""

import torch

from ..exercises.by_hand import mlp_bytes


def second_linear_keeps_nothing(b, s, h, activation):
    return 4 * b * s * (h + 2 + h + (4 * h if activation == "gelu" else 0))


def as_in_the_worked_case_and_gelu(b, s, h, activation):
    return 4 * b * s * (9 * h if activation == "gelu" else 5 * h)


def added_up_layer_by_layer(b, s, h, activation):
    kept = {"norm": h + 2, "up": h, "down": 4 * h}
    if activation != "relu":
        kept["gelu"] = 4 * h
    return sum(kept.values()) * b * s * 4


def measured_instead(b, s, h, activation):
    mlp = torch.nn.Sequential(
        torch.nn.LayerNorm(h),
        torch.nn.Linear(h, 4 * h),
        torch.nn.GELU() if activation == "gelu" else torch.nn.ReLU(),
        torch.nn.Linear(4 * h, h),
    )
    own = {p.untyped_storage().data_ptr() for p in mlp.parameters()}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        mlp(torch.ones(b, s, h, requires_grad=True))
    return sum(storage.nbytes() for storage in kept.values())


ALSO_WRONG = [
    ("batch", lambda b, s, h, activation: mlp_bytes(1, s, h, activation)),
    ("sequence", lambda b, s, h, activation: mlp_bytes(b, 1, h, activation)),
    ("weights", lambda b, s, h, activation: mlp_bytes(b, s, h, activation) + 32 * h * h * b * s),
    ("capitals", lambda b, s, h, activation: mlp_bytes(b, s, h, activation.swapcase())),
    ("as_relu", second_linear_keeps_nothing),
    ("one_too_few", as_in_the_worked_case_and_gelu),
    ("bytes", lambda b, s, h, activation: 8 * mlp_bytes(b, s, h, activation)),
    ("bytes", lambda b, s, h, activation: mlp_bytes(b, s, h, activation) - 24 * b * s * h),
    ("no_number", lambda b, s, h, activation: [4, b, s, h]),
]
ALSO_RIGHT = [
    added_up_layer_by_layer,
    measured_instead,
    lambda *sizes: float(mlp_bytes(*sizes)),
]
