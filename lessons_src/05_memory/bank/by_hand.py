"""More answers to `mlp_bytes`, for the tests alone."""

from ..exercises.by_hand import INSIDE, NORM, measured, mlp_bytes

RETURN = "return 4 * b * s * per_position"  # words of the solution


def added_up_layer_by_layer(b, s, h, activation):
    kept = {"norm": h + 2, "up": h, "down": 4 * h}
    if activation != "relu":
        kept["gelu"] = 4 * h
    return sum(kept.values()) * b * s * 4


ALSO_WRONG = [
    ("batch", {RETURN: "return 4 * s * per_position"}),
    ("sequence", {RETURN: "return 4 * b * per_position"}),
    ("weights", {RETURN: f"{RETURN} + 32 * h * h * b * s"}),
    ("capitals", lambda b, s, h, activation: mlp_bytes(b, s, h, activation.swapcase())),
    # the second linear layer keeps nothing
    ("as_relu", {INSIDE: '4 * h if activation == "gelu" else 0'}),
    ("one_too_few", {NORM: "norm = 0"}),
    ("bytes", {RETURN: f"{RETURN} * 8"}),
    ("bytes", {RETURN: f"{RETURN} - 24 * b * s * h"}),
    ("no_number", {RETURN: "return [4, b, s, h]"}),
]
ALSO_RIGHT = [added_up_layer_by_layer, measured, {RETURN: f"return float({RETURN[7:]})"}]
