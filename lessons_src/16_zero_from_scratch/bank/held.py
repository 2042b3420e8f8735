"""More answers to `held`, for the tests alone."""

from ..exercises.held import KINDS, held


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
    ("bytes_each", {"(2, 2, 12)": "(2, 2, 4)"}),
    ("rounded_down", {"state * psi / (n": "state * psi // (n"}),
    ("kind_of_bytes", {"stage >= 2": "stage == 2"}),
    ("kinds", {'"parameters": w': '"weights": w', '"optimizer": s': '"adam": s'}),
    ("kinds", lambda *given: sum(held(*given).values())),
    ("kinds", lambda *given: {kind: str(value) for kind, value in held(*given).items()}),
    ("kinds", lambda *given: in_four_kinds(*given) | {"fp32_copy": "4"}),
    ("kinds", lambda *given: {"parameters": "2", "gradients": None, "optimizer": 1}),
    ("none", lambda *given: [].sort()),
    ("bytes_each", lambda *given: dict.fromkeys(KINDS, float("nan"))),
    ("bytes_each", lambda *given: dict.fromkeys(KINDS, 0)),
    ("raised", lambda psi, n, stage, precision: psi / 0),
]
ALSO_RIGHT = [by_hand, in_four_kinds]
