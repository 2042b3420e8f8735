"""More answers to `states_gb`, for the tests alone."""

from ..exercises.states import states_gb


def by_branches(parameters, precision, optimizer):
    billions = parameters / 1e9
    held = {"parameters": 4 * billions, "gradients": 4 * billions, "fp32_copy": 0, "optimizer": 0}
    if precision == "mixed":
        held.update(parameters=2 * billions, gradients=2 * billions, fp32_copy=4 * billions)
    if optimizer != "sgd-plain":
        held["optimizer"] = (8 if optimizer == "adamw" else 4) * billions
    return held


def in_bits(parameters, precision, optimizer):
    weight, copy = (16, 32) if precision == "mixed" else (32, 0)
    bits = {"optimizer": {"adamw": 64, "sgd": 32, "sgd-plain": 0}[optimizer], "fp32_copy": copy}
    bits |= {"gradients": weight, "parameters": weight}
    return {kind: parameters * n / 8e9 for kind, n in bits.items()}


def with_copy_in_optimizer(*case):
    held = states_gb(*case)
    held["optimizer"] += held.pop("fp32_copy")
    return held


def own_names(*case):
    held = states_gb(*case)
    held["weights"] = held.pop("parameters")
    return held


def only_adam(parameters, precision, optimizer):
    return states_gb(parameters, precision, {"adamw": optimizer}[optimizer])


def one_byte(parameters, precision, optimizer):
    held = states_gb(parameters, precision, optimizer)
    return held | ({"gradients": parameters / 1e9} if precision == "fp32" else {})


def never_ends(parameters, precision, optimizer):
    while True:
        parameters += 1


ALSO_WRONG = [
    ("one_number", lambda *case: sum(states_gb(*case).values())),
    ("kinds", with_copy_in_optimizer),
    ("kinds", own_names),
    ("none", lambda *case: {kind: value or None for kind, value in states_gb(*case).items()}),
    ("bytes", one_byte),
    ("raised", only_adam),
    ("loops", never_ends),
]
ALSO_RIGHT = [by_branches, in_bits]
