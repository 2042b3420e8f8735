"""Exercise 28.1: GiB that stay free on a card, from 2 + 2 + 12 bytes a parameter and activations.

Ψ is 2³⁰ in most cases, so that GiB are bytes a parameter and a mistake names itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong

from ..what_if import GIB, GPT2, computing, held

Room = Callable[..., Any]
ROUNDED = 0.006  # GiB: an answer with two digits after the point is right, too


class Case(NamedTuple):
    """A model, what it computes with, how it is spread, and the card; in the answer's order."""

    parameters: int
    computing: int
    strategy: str
    ranks: int
    card: int

    @property
    def label(self) -> str:
        """The case in words."""
        kept = f" and {self.computing / GIB:g} GiB of activations" if self.computing else ""
        cards = f"{self.ranks} card{'s' * (self.ranks > 1)}"
        return f"2³⁰ parameters{kept}, {self.strategy}, {cards} of {self.card} GiB"


# One thing more each time: the units, who shares, each stage, what lies elsewhere, activations.
CASES = (
    Case(GIB, 0, "single", 1, 100),
    Case(GIB, 0, "ddp", 3, 100),
    Case(GIB, 0, "zero1", 3, 100),
    Case(GIB, 0, "zero2", 3, 100),
    Case(GIB, 0, "zero3", 4, 100),
    Case(GIB, 0, "offload", 3, 100),
    Case(GIB, 0, "infinity", 4, 100),
    Case(GIB, 6 * GIB, "ddp", 3, 100),
    Case(GIB, 6 * GIB, "zero3", 4, 100),
    Case(GIB, 6 * GIB, "ddp", 4, 20),
)


def reference(
    parameters: int, computing_bytes: int, strategy: str, ranks: int, card_gib: float
) -> float:
    """The card less what the rule and the activations take."""
    sizes = held(parameters, strategy, ranks, computing_bytes)
    return card_gib - sum(sizes.values()) / GIB


def check(student: Room) -> Passed:
    """Units first, then strategy by strategy, then activations, then a card that is too small."""
    for case in CASES:
        got = _ask(student, case)
        if abs(got - reference(*case)) > ROUNDED:
            raise _explain(got, case)
    name, layers, width, heads, parameters = GPT2[-1]
    real = Case(parameters, computing(layers, width, heads, 4), "zero2", 4, 24)
    got = _ask(student, real)
    if abs(got - reference(*real)) > ROUNDED:
        raise Wrong("other", f"{name} on 4 cards of 24 GiB", got=f"{got:.3f}", strategy="zero2")
    yours, target = f"{got:.2f}", f"{reference(*real):.2f}"
    return Passed(((f"{name}, zero2 on 4 cards of 24 GiB", yours, target, "GiB left"),))


def _ask(student: Room, case: Case) -> float:
    got = ask(student, *case, case=case.label)
    if isinstance(got, bool):
        raise Wrong("boolean", case.label, got="yes" if got else "no")
    return to_number(got, case.label)


def _explain(got: float, case: Case) -> Wrong:
    """Compare with what the usual wrong ways give in this case."""
    n, card = case.ranks, case.card
    states = sum(held(case.parameters, case.strategy, n).values()) / GIB
    kept = case.computing / GIB
    ways = {
        "held": states + kept,
        "sign": states + kept - card,
        "bytes": (card - states - kept) * GIB,
        "gigabytes": card - (states + kept) * GIB / 1e9,
        "card_in_gigabytes": card * 1e9 / GIB - states - kept,
        "never_negative": max(0.0, card - states - kept),
        **{key: card - size - kept for key, size in _per_parameter(case).items()},
        "no_activations": card - states,
        "activations_shared": card - states - kept / n,
    }
    facts = {"got": f"{got:.4g}", "n": n, "card": card, "strategy": case.strategy}
    facts |= {"kept": f"{kept:g}"}
    for key, value in ways.items():
        if abs(got - value) < 1e-6 and abs(value - reference(*case)) > 1e-6:
            return Wrong(key.removesuffix("_whole_too"), case.label, **facts)
    return Wrong("other", case.label, **facts)


def _per_parameter(case: Case) -> dict[str, float]:
    """Bytes a parameter that usual mistakes about a strategy lead to."""
    n = case.ranks
    zero1, zero2, zero3 = 4 + 12 / n, 2 + 14 / n, 16 / n
    of: dict[str, dict[str, float]] = {
        "single": {"fp32_states": 20, "no_copy": 12, "weights_alone": 2},
        "ddp": {"ddp_shares": zero3},
        "zero1": {
            "gradients_at_1": zero2,
            "all_at_1": zero3,
            "nothing_shared": 16,
            "copy_whole": 8 + 8 / n,
        },
        "zero2": {"weights_at_2": zero3, "gradients_whole": zero1, "nothing_shared": 16},
        "zero3": {"weights_whole": zero2, "nothing_shared": 16},
        "offload": {
            "offload_stays": zero2,
            "offload_gradients": 2 + 2 / n,
            "offload_gradients_whole_too": 4,
            "nothing_shared": 16,
        },
        "infinity": {"infinity_weights": 2, "infinity_as_3": zero3, "nothing_shared": 16},
    }
    return of[case.strategy]
