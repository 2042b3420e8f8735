"""Exercise 17.1: what a rank holds under DeepSpeed, by kind, its fp32 copy included.

A total would hide mistakes: in 16 bits weights and gradients can be swapped unseen. So every kind
is looked at, and a mistake is known by the kinds that it gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dtlib.learn.asking import to_number
from dtlib.learn.checking import Passed, Wrong, stopped_here
from dtlib.sim import states

KINDS = ("weights", "gradients", "moments", "fp32_copy")
CASES = (
    *((12, 1, 1, False), (12, 3, 1, False), (12, 4, 2, False), (12, 4, 3, False)),
    *((1200, n, stage, True) for n in (3, 4) for stage in (1, 2, 3)),
)


def reference(parameters: int, ranks: int, stage: int, sixteen_bit: bool) -> dict[str, float]:
    """What `sim` says of DeepSpeed, without padding."""
    recipe = "mixed" if sixteen_bit else "fp32"
    found = states.model_states(parameters, ranks, f"zero{stage}", recipe)["device"]
    names = ("parameters", "gradients", "optimizer", "fp32_copy")
    return {kind: found[name] for kind, name in zip(KINDS, names, strict=True)}


def check(student: Callable[..., Any]) -> Passed:
    """One rank in fp32 first, then three and four, each stage, then 16 bits."""
    for case in CASES:
        got, want = _held(student, case), reference(*case)
        # so written that nan is wrong, too
        if not all(abs(got[kind] - want[kind]) <= 1e-6 * want[kind] for kind in KINDS):
            raise _explain(got, want, case)
    numbers = (811_520, 2, 2, False)
    yours, target = _held(student, numbers), reference(*numbers)
    total = f"{sum(yours.values()):,.0f}", f"{sum(target.values()):,.0f}"
    return Passed((("811,520 parameters, 2 ranks, stage 2, fp32", *total, "bytes"),))


def _label(case: tuple[int, int, int, bool]) -> str:
    parameters, ranks, stage, sixteen = case
    return (
        f"{parameters} parameters, {ranks} rank{'s' * (ranks > 1)}, stage {stage}, "
        f"{'16 bits' if sixteen else 'fp32'}"
    )


def _held(student: Callable[..., Any], case: tuple[int, int, int, bool]) -> dict[str, float]:
    try:
        got = student(*case)
    except Exception as error:
        raise stopped_here(error, _label(case)) from error
    if got is None:
        raise Wrong("none", _label(case))
    if not isinstance(got, Mapping):
        raise Wrong("kind", _label(case), got=f"{type(got).__name__}")
    if set(got) != set(KINDS):
        raise Wrong("keys", _label(case), got=", ".join(sorted(map(str, got))) or "no key")
    return {kind: _number(got[kind], kind, case) for kind in KINDS}


def _number(value: Any, kind: str, case: tuple[int, int, int, bool]) -> float:
    try:
        return to_number(value, _label(case), nan=True)
    except Wrong:
        raise Wrong("no_number", _label(case), which=kind, got=type(value).__name__) from None


def _explain(
    got: Mapping[str, float], want: Mapping[str, float], case: tuple[int, int, int, bool]
) -> Wrong:
    parameters, n, stage, sixteen = case
    wrong = {kind for kind in KINDS if not abs(got[kind] - want[kind]) <= 1e-6 * want[kind]}
    times = {kind: got[kind] / want[kind] for kind in KINDS}
    facts = {"n": n, "stage": stage, "parameters": parameters, "held": "fp32"}
    facts |= {kind: f"{got[kind]:g}" for kind in KINDS}
    facts |= {f"{kind}_each": f"{got[kind] / parameters:g}" for kind in KINDS}
    label = _label(case)

    def off(kind: str, factor: float) -> bool:
        return abs(times[kind] - factor) < 1e-6

    if all(off(kind, 0.25) for kind in KINDS):
        return Wrong("elements", label, **facts)
    if wrong == {"fp32_copy"} and got["fp32_copy"] == 0:
        return Wrong("no_copy", label, **facts)
    if n > 1 and wrong == {"fp32_copy"} and off("fp32_copy", n):
        return Wrong("copy_whole", label, **facts)
    if n > 1 and stage == 2 and off("weights", 1 / n):
        key = "weights_at_2" if off("gradients", n) else "weights_sharded_at_2"
        return Wrong(key, label, **facts)
    if n > 1 and stage == 1 and off("gradients", 1 / n):
        key = "all_at_1" if off("weights", 1 / n) else "gradients_at_1"
        return Wrong(key, label, **facts)
    if n > 1 and "moments" in wrong and off("moments", n):
        return Wrong("moments_whole", label, **facts)
    if sixteen and "moments" in wrong and off("moments", 0.5):
        return Wrong("half_moments", label, **facts)
    if "moments" in wrong and off("moments", 0.5):
        return Wrong("one_moment", label, **facts)
    if sixteen and wrong <= {"weights", "gradients"} and all(off(kind, 2) for kind in wrong):
        return Wrong("still_fp32", label, which=" and ".join(sorted(wrong)), **facts)
    if n > 1 and all(off(kind, n) for kind in wrong):
        return Wrong("not_sharded", label, which=" and ".join(sorted(wrong)), **facts)
    first = next(kind for kind in KINDS if kind in wrong)
    seen = f"{first.replace('_', ' ')}: {got[first]:g} bytes for {parameters} parameters"
    return Wrong("unrecognised", label, seen=seen)
