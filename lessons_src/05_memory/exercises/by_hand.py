"""Exercise 5.1: the bytes that a block's MLP keeps for backward, against what autograd saves.

Two widths tell how many numbers a position keeps for each unit of width and how many whatever the
width is; each wrong way of counting has its own pair. The real layers have the last word.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

from ..activation_checkpointing import saved_for_backward

Count = Callable[[int, int, int, str], Any]
LAYERS = {"gelu": nn.GELU, "relu": nn.ReLU}
WIDTH = {"gelu": 10, "relu": 6}  # numbers of a position for each unit of width
PROOF = ((1, 1, 8), (3, 5, 16), (4, 16, 32))


def reference(b: int, s: int, h: int, activation: str) -> int:
    """Bytes that layer norm, Linear(h, 4h), the activation and Linear(4h, h) keep, in fp32."""
    inside = 4 * h if activation == "relu" else 4 * h + 4 * h
    return 4 * b * s * (h + 2 + h + inside)


def measured(b: int, s: int, h: int, activation: str) -> int:
    """The same as autograd saves it; tensors of the model itself are not counted."""
    half = nn.Sequential(
        nn.LayerNorm(h), nn.Linear(h, 4 * h), LAYERS[activation](), nn.Linear(4 * h, h)
    )
    x = torch.zeros(b, s, h, requires_grad=True)
    with saved_for_backward(*half.parameters()) as saved:
        _ = x + half(x)
        return saved()


def check(student: Count) -> Passed:
    """Compare with the layers: GELU first, then ReLU, from one position of one unit upwards."""
    for activation in LAYERS:
        _scales(student, activation)
        _explain(student, activation)
        for b, s, h in PROOF:
            got, want = _ask(student, b, s, h, activation), measured(b, s, h, activation)
            if got != want:
                raise Wrong("bytes", _case(b, s, h, activation), got=_say(got), want=f"{want:,}")
    b, s, h = PROOF[-1]
    rows = [
        (
            f"{name}, b = {b}, s = {s}, h = {h}",
            int(_ask(student, b, s, h, name)),
            measured(b, s, h, name),
            "bytes",
        )
        for name in LAYERS
    ]
    return Passed(tuple(rows), "The target is what autograd saved for the real layers.")


def _ask(student: Count, b: int, s: int, h: int, activation: str) -> float:
    case = _case(b, s, h, activation)
    value = ask(student, b, s, h, activation, case=case)
    if value is None:
        raise Wrong("none", case)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise Wrong("no_number", case, got=type(value).__name__)
    if not math.isfinite(value):
        raise Wrong("no_number", case, got=str(float(value)))
    return float(value)


def _case(b: int, s: int, h: int, activation: str) -> str:
    return f"b = {b}, s = {s}, h = {h}, {activation}"


def _say(value: float) -> str:
    return f"{value:,.0f}" if value % 1 == 0 else f"{value:,.4g}"


def _scales(student: Count, activation: str) -> None:
    """Twice the sequences and twice the positions have to be twice the bytes."""
    one = _ask(student, 1, 1, 8, activation)
    for name, size in (("batch", (2, 1)), ("sequence", (1, 2))):
        two = _ask(student, *size, 8, activation)
        if two != 2 * one:
            raise Wrong(name, _case(*size, 8, activation), one=_say(one), two=_say(two))


def _explain(student: Count, activation: str) -> None:
    """Find how the count grows with the width, and what it says of the way it was made."""
    narrow, middle, wide = (_ask(student, 1, 1, h, activation) for h in (10, 20, 30))
    case = _case(1, 1, 10, activation)
    seen: dict[str, Any] = {"got": _say(narrow), "want": measured(1, 1, 10, activation)}
    if wide - middle != middle - narrow:
        raise Wrong("weights", _case(1, 1, 20, activation), one=_say(narrow), two=_say(middle))
    each = (middle - narrow) / 10
    rest = narrow - 10 * each
    if each % 1 or rest % 1:
        raise Wrong("bytes", case, **seen)
    right = 4 * WIDTH[activation]
    if (each, rest) == (right, 8):
        return
    name = _name(each, rest, right, activation)
    if name == "as_relu" and _ask(student, 1, 1, 10, "GELU") == seen["want"]:
        name = "capitals"
    raise Wrong(name, case, each=_say(each), **seen)


def _name(each: float, rest: float, right: int, activation: str) -> str:
    """Name a wrong count: `each` bytes for a unit of width, `rest` at any width; 8 is right."""
    for name, times in (("elements", 4), ("sixteen_bits", 2)):
        if (each * times, rest * times) == (right, 8):
            return name
    if (each, rest) == (right, 0):
        return "no_statistics"
    if (each, rest) == (right, 4):
        return "one_statistic"
    if (each, rest) == (20, 0):
        return "worked_case"
    if (each, rest) == (right + 8, 0):
        return "wide_statistics"
    other = {"gelu": ("as_relu", 24), "relu": ("relu_twice", 40)}[activation]
    if each == other[1]:
        return other[0]
    tensors = {4: "one_too_many", -4: "one_too_few", -8: "two_too_few", -16: "inner_missing"}
    return tensors.get(int(each) - right, "bytes")
