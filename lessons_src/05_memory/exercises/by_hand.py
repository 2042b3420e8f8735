"""Exercise 5.1: the bytes that a block's MLP keeps for backward.

The solution judges; a pass and the tests of the lesson show beside it what autograd saves.

From three widths follow the bytes for each unit of width and the bytes that do not depend on the
width; each wrong way of counting gives its own pair.
"""

import math
import numbers

import torch
from torch import nn

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from ..activation_checkpointing import saved_for_backward

LAYERS = {"gelu": nn.GELU, "relu": nn.ReLU}
WIDTHS, LAST = [(1, 1, 10), (1, 1, 20), (1, 1, 30)], (4, 16, 32)
PROOF = ((1, 1, 8), (3, 5, 16), LAST)
# words of the solution
NORM, INSIDE = "norm = h + 2", '4 * h + 4 * h if activation == "gelu" else 4 * h'

mlp_bytes = solution("mlp_bytes", globals())


def measured(b, s, h, activation):
    """The same as autograd saves it; tensors of the model itself are not counted."""
    half = nn.Sequential(
        nn.LayerNorm(h), nn.Linear(h, 4 * h), LAYERS[activation](), nn.Linear(4 * h, h)
    )
    x = torch.zeros(b, s, h, requires_grad=True)
    with saved_for_backward(*half.parameters()) as saved:
        _ = x + half(x)
        return saved()


def label(b, s, h, *activation):
    return ", ".join((f"b = {b}", f"s = {s}", f"h = {h}", *activation))


def run(answer, sizes, activation):
    """The counts for these sizes; of several widths, if they grow with batch and sequence, too."""
    if len(sizes) == 1:
        return [count(answer, *sizes[0], activation)]
    one = count(answer, 1, 1, 8, activation)
    for key, size in (("batch", (2, 1, 8)), ("sequence", (1, 2, 8))):
        two = count(answer, *size, activation)
        if two != 2 * one:
            raise Wrong(key, label(*size, activation), one=said(one), two=said(two))
    found = [count(answer, *size, activation) for size in sizes]
    if found[2] - found[1] != found[1] - found[0]:
        case = label(*sizes[1], activation)
        raise Wrong("weights", case, one=said(found[0]), two=said(found[1]))
    right = mlp_bytes(*sizes[0], "gelu")
    as_relu = activation == "gelu" and found[1] - found[0] == 240
    if as_relu and count(answer, *sizes[0], "GELU") == right:
        raise Wrong("capitals", got=said(found[0]), want=right)
    return found


def count(answer, *size):
    """One count, a number."""
    value = answer(*size)
    if value is None:
        raise Wrong("none", label(*size))
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise Wrong("no_number", label(*size), got=type(value).__name__)
    if not math.isfinite(value):
        raise Wrong("no_number", label(*size), got=str(float(value)))
    return float(value)


def said(value):
    return f"{value:,.0f}" if value % 1 == 0 else f"{value:,.4g}"


def each(counts):
    """Bytes for each unit of width."""
    return (counts[1] - counts[0]) / 10 if len(counts) > 1 else 0.0


def off(by, only=tuple(LAYERS)):
    """Recognises counts with so many bytes too much for each unit of width."""
    return lambda got, want, activation: each(got) - each(want) == by and activation in only


EXERCISE = Answer(
    mlp_bytes,
    other="bytes",
    run=run,
    same=0.0,
    cases=[
        (label(*sizes[0], activation), (sizes, activation))
        for activation in LAYERS
        for sizes in (WIDTHS, *([size] for size in PROOF))
    ],
    mistakes=[
        ("elements", {"return 4 *": "return"}),
        ("sixteen_bits", {"return 4": "return 2"}),
        ("no_statistics", {NORM: "norm = h"}),
        ("one_statistic", {NORM: "norm = h + 1"}),
        ("worked_case", lambda b, s, h, activation: 4 * b * s * 5 * h),
        ("wide_statistics", {NORM: "norm = h + 2 * h"}),
        Mistake("as_relu", {INSIDE: "4 * h"}, when=off(-16, "gelu")),
        Mistake("relu_twice", {INSIDE: "8 * h"}, when=off(16, "relu")),
        Mistake("one_too_many", {"up = h": "up = 2 * h"}, when=off(4)),
        Mistake("one_too_few", {NORM: "norm = 2"}, when=off(-4)),
        Mistake("two_too_few", {NORM: "norm = 2", "up = h": "up = 0"}, when=off(-8)),
        Mistake("inner_missing", {"else 4 * h": "else 0"}, when=off(-16)),
    ],
    facts=lambda got, want: {
        "got": said(got[0]), "want": f"{want[0]:,.0f}", "each": said(each(got)),
    },
    passed=lambda got: Passed(
        tuple(
            (", ".join((name, label(*LAST))), int(counts[0]),
             measured(*LAST, name), "bytes")
            for name, counts in zip(LAYERS, got[3::4], strict=True)
        ),
        "The target is what autograd saved for the real layers.",
    ),
)  # fmt: skip
