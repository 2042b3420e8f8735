"""Exercise 1.2: GB of model states by kind; the total alone would hide who keeps what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.ratios import near, short
from dtlib.sim.states import MOMENTS, RECIPES

KINDS = ("parameters", "gradients", "fp32_copy", "optimizer")
CASES = (
    (1e9, "mixed", "adamw"),
    (1e9, "mixed", "sgd"),
    (1e9, "mixed", "sgd-plain"),
    (1e9, "fp32", "adamw"),
    (1e9, "fp32", "sgd"),
    (1e9, "fp32", "sgd-plain"),
    (7e9, "mixed", "adamw"),
)
UNITS = {"unit_bytes": 1e9, "unit_gib": 1e9 / 2**30, "unit_bits": 8, "unit_mega": 1e3}

# (kind, bytes a parameter that were answered) to the mistake, by case.
KNOWN: dict[tuple[str, str], dict[tuple[str, float], str]] = {
    ("mixed", "adamw"): {
        ("parameters", 4): "fp32_weights",
        ("gradients", 4): "fp32_gradients",
        ("gradients", 0): "no_gradients",
        ("fp32_copy", 0): "no_copy",
        ("fp32_copy", 2): "half_copy",
        ("optimizer", 4): "one_moment",
        ("optimizer", 12): "copy_twice",
    },
    ("mixed", "sgd"): {("optimizer", 8): "sgd_as_adam", ("optimizer", 0): "no_momentum"},
    ("mixed", "sgd-plain"): {("optimizer", 4): "plain_state", ("optimizer", 8): "plain_state"},
    ("fp32", "adamw"): {
        ("fp32_copy", 4): "copy_of_fp32",
        ("parameters", 2): "fp32_as_16",
        ("gradients", 2): "fp32_gradient_as_16",
    },
}


def states_gb(parameters: float, precision: str, optimizer: str) -> dict[str, float]:
    """GB of the model states by kind."""
    weight, gradient, copy, moment = RECIPES[precision]
    held = {
        "parameters": weight,
        "gradients": gradient,
        "fp32_copy": copy,
        "optimizer": MOMENTS[optimizer] * moment,
    }
    return {kind: parameters * size / 1e9 for kind, size in held.items()}


def check(student: Callable[..., Any]) -> Passed:
    """Mixed precision with Adam first, then other optimizers, then fp32, then 7 billion."""
    for parameters, precision, optimizer in CASES:
        case = f"Ψ = {parameters:g}, {precision}, {optimizer}"
        answer = ask(student, parameters, precision, optimizer, case=case)
        _compare(_read(answer, case), parameters, precision, optimizer, case)
    total = sum(ask(student, 7e9, "mixed", "adamw", case="").values())
    row = ("7 billion parameters, mixed, adamw", round(float(total), 3), 112, "GB")
    return Passed((row,), "One such GPU has 80 GiB, which is 85.9 GB.")


def _read(answer: Any, case: str) -> dict[str, float]:
    """Read the answer's numbers by kind."""
    if not isinstance(answer, Mapping):
        number = to_number(answer, case)
        raise Wrong("one_number", case, got=short(number))
    missing = [kind for kind in KINDS if kind not in answer]
    more = [str(kind) for kind in answer if kind not in KINDS]
    if missing or more:
        raise Wrong("kinds", case, missing=", ".join(missing) or "none", more=", ".join(more))
    return {kind: to_number(answer[kind], case) for kind in KINDS}


def _compare(
    answer: dict[str, float], parameters: float, precision: str, optimizer: str, case: str
) -> None:
    want = states_gb(parameters, precision, optimizer)
    wrong = [kind for kind in KINDS if not _same(answer[kind], want[kind])]
    if not wrong:
        return
    for mistake, factor in UNITS.items():
        if all(_same(answer[kind], factor * want[kind]) for kind in KINDS):
            raise Wrong(mistake, case, got=short(sum(answer.values())))
    known = KNOWN.get((precision, optimizer), {})
    for kind in wrong:
        each = answer[kind] * 1e9 / parameters
        for (of, size), mistake in known.items():
            if of == kind and _same(each, size):
                raise Wrong(mistake, case, total=short(sum(answer.values())))
    kind = wrong[0]
    raise Wrong("bytes", case, kind=kind, got=short(answer[kind] * 1e9 / parameters))


def _same(got: float, want: float) -> bool:
    return near(got, want) or got == want == 0
