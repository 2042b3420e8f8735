"""Exercise 1.4: the fewest ranks that hold a model, from small numbers that tell mistakes apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.ratios import near, short

from ..what_if import smallest_world, states_gb

Case = tuple[float, int, float, float]  # Ψ, stage, memory and activations in GB
# With a billion parameters the states are 16 GB. A wrong number to its mistake, case by case.
CASES: tuple[tuple[Case, dict[float, str]], ...] = (
    ((1e9, 3, 80.0, 0.0), {0: "nobody"}),
    ((1e9, 3, 4.0, 0.0), {5: "does_not_touch"}),
    ((1e9, 3, 5.0, 0.0), {3: "rounded_down", 3.2: "part_of_a_gpu"}),
    ((1e9, 3, 10.0, 8.0), {2: "no_activations", 1: "activations_help", 3: "activations_divided"}),
    ((1e9, 1, 5.0, 0.0), {4: "all_divided", 5: "stage_2", 16: "power_of_two"}),
    ((1e9, 2, 4.0, 0.0), {4: "all_divided", 8: "power_of_two"}),
    ((1e9, 0, 20.0, 0.0), {0: "nobody"}),
    ((1e9, 0, 10.0, 0.0), {2: "copies"}),
    ((1e9, 1, 3.0, 0.0), {}),
    ((1e9, 3, 5.0, 5.0), {}),
    ((1e9, 3, 5.0, 6.0), {}),
    ((7e9, 3, 80.0, 30.0), {}),
    ((1e9, 3, 0.03, 0.0), {}),  # 534: a search must go far enough
)


def check(student: Callable[..., Any]) -> Passed:
    """A model that fits on one; exact fit; a remainder; activations; other stages; no room."""
    for case, known in CASES:
        _compare(student, case, known)
    rows = []
    for stage in (1, 2, 3):
        got = ask(student, 7e9, stage, 85.9, 20.0, case="")
        want = smallest_world(7e9, stage, 85.9, 20.0)
        rows.append(
            (f"7 billion, stage {stage}, 20 GB of activations", got, want, "GPUs of 80 GiB")
        )
    return Passed(tuple(rows))


def _compare(student: Callable[..., Any], case: Case, known: dict[float, str]) -> None:
    parameters, stage, memory, activations = case
    words = (
        f"Ψ = {parameters:g}, stage {stage}, {memory:g} GB a GPU, {activations:g} GB of activations"
    )
    want = smallest_world(*case)
    try:
        value = ask(student, *case, case=words)
    except Wrong as wrong:
        if want is None and wrong.mistake == "raised":
            raise Wrong("no_room_raised", words, error=wrong.numbers["error"]) from None
        if want is None and wrong.mistake == "loops":
            raise Wrong("searches_on", words) from None
        raise
    if value is None and want is None:
        return
    if value is None:
        many = 1000 if stage else 1  # at stage 0 more of them change nothing
        raise Wrong("gave_up", words, many=many, need=_held(case, many))
    got = to_number(value, words)
    seen: dict[str, Any] = {"got": short(got), "stage": stage, "memory": short(memory)}
    if want is None:
        _should_be_none(got, known, words, case, seen)
    elif not near(got, want):
        found = next((mistake for number, mistake in known.items() if near(got, number)), None)
        if found is None:
            found = "too_few" if got < want else "too_many"
        held = _held(
            case, max(1.0, got - (found in ("too_many", "power_of_two", "does_not_touch")))
        )
        raise Wrong(found, words, **seen, held=held)


def _should_be_none(
    got: float, known: dict[float, str], words: str, case: Case, seen: dict[str, Any]
) -> None:
    for number, mistake in known.items():
        if near(got, number):
            raise Wrong(mistake, words, **seen, held=_held(case, got))
    least = _held(case, 1e12)
    raise Wrong(
        "below_one" if got < 1 or got == float("inf") else "never", words, **seen, held=least
    )


def _held(case: Case, ranks: float) -> str:
    """GB that each of so many ranks would hold."""
    parameters, stage, _, activations = case
    return short(states_gb(parameters, stage, ranks) + activations)
