"""More answers to `held`, for the tests alone."""

from ..exercises.held import held


def in_words(psi, n, stage, precision):
    return {kind: str(value) for kind, value in held(psi, n, stage, precision).items()}


def copy_in_words(psi, n, stage, precision):
    found = in_four_kinds(psi, n, stage, precision)
    return {**found, "fp32_copy": str(found["fp32_copy"])}


def other_names(psi, n, stage, precision):
    p, g, o = held(psi, n, stage, precision).values()
    return {"weights": p, "grads": g, "adam": o}


def adam_alone(psi, n, stage, precision):
    found = held(psi, n, stage, precision)
    return found | {"optimizer": found["optimizer"] / (3 if precision == "mixed" else 1)}


def gradients_whole_at_stage_3(psi, n, stage, precision):
    found = held(psi, n, stage, precision)
    return found | {"gradients": found["gradients"] * (n if stage == 3 else 1)}


def by_hand(psi, n, stage, precision):
    p, g, o = (2, 2, 12) if precision == "mixed" else (4, 4, 8)
    return {
        "optimizer": o * psi / (n if stage >= 1 else 1),
        "gradients": g * psi / (n if stage >= 2 else 1),
        "parameters": p * psi / (n if stage == 3 else 1),
    }


def in_four_kinds(psi, n, stage, precision):
    p, g, copy, moments = (2, 2, 4, 8) if precision == "mixed" else (4, 4, 0, 8)
    parts = [1, 1, 1]
    for k in range(stage):
        parts[2 - k] = n
    return {
        "parameters": p * psi / parts[0],
        "gradients": g * psi / parts[1],
        "fp32_copy": copy * psi / parts[2],
        "optimizer": moments * psi / parts[2],
    }


ALSO_WRONG = [
    ("bytes_each", adam_alone),
    ("kind_of_bytes", gradients_whole_at_stage_3),
    ("kinds", other_names),
    ("kinds", lambda *given: sum(held(*given).values())),
    ("kinds", in_words),
    ("kinds", copy_in_words),
]
ALSO_RIGHT = [by_hand, in_four_kinds]
