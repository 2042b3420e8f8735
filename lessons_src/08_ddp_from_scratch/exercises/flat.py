"""Exercise 8.2: all gradients averaged in one message.

The gradient of parameter k on rank r is painted (k + 1)·10**r, so that on three ranks parameter 0
must end with 37, parameter 1 with 74, and so on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number
from dtlib.scratch.data_parallel import flat_all_reduce as reference

__all__ = ["check", "explain", "reference"]

SHAPES = ((3, 2), (3,), (2, 3), (2,))
NAMES = ("0.weight", "0.bias", "1.weight", "1.bias")
SIZES = (6, 3, 6, 2)
ALL, NOBODY, ONE, TYPES = (
    "every parameter has a gradient",
    "0.bias has none on any rank",
    "0.bias has none on the last rank",
    "layer 1 in bf16",
)
LABELS = (ALL, NOBODY, ONE, TYPES)
LACKS = 1  # the parameter that has no gradient in some cases


def check(student: Callable[..., Any]) -> Passed:
    """Average painted gradients on 1, 3 and 4 ranks: all there, some missing, two dtypes."""
    cases = [_case(k) for k in range(len(LABELS))]
    plan = [(1, cases[:2]), (3, cases), (4, cases)]
    rounds = examine(functools.partial(_on_rank, student), plan, explain)
    for round_ in rounds:
        wrong = _too_much(round_)
        if wrong is not None:
            raise wrong
    first = rounds[0].ranks[0]
    sent = sum(m.bytes for m in first.messages)
    return Passed(
        (
            ("messages for 4 parameters", len(first.messages), 1, ""),
            ("bytes in them", sent, 4 * sum(SIZES), "bytes"),
        )
    )


def _case(kind: int) -> Case:
    return Case(
        LABELS[kind],
        make=lambda rank, n: torch.tensor([float(kind)]),
        want=lambda rank, n: torch.tensor(_want(kind, n)),
        # bf16 keeps 8 bits: a division rounds by 1/256, a forgotten one is off by N.
        tolerance=0.02 if LABELS[kind] == TYPES else 1e-5,
    )


def _want(kind: int, n: int) -> list[float]:
    means = [(k + 1) * sum(10.0**r for r in range(n)) / n for k in range(4)]
    if LABELS[kind] == NOBODY:
        means[LACKS] = 0.0
    if LABELS[kind] == ONE:
        means[LACKS] = (LACKS + 1) * sum(10.0**r for r in range(n - 1)) / n
    return [mean for mean, size in zip(means, SIZES, strict=True) for _ in range(size)]


def _on_rank(student: Callable[..., Any], code: torch.Tensor) -> torch.Tensor:
    """Return all gradients, one behind the other; None counts as 0."""
    label, rank, n = LABELS[int(code)], dist.get_rank(), dist.get_world_size()
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    if label == TYPES:
        model[1].bfloat16()
    params = list(model.parameters())
    for k, p in enumerate(params):
        lacks = label == NOBODY or (label == ONE and rank == n - 1)
        if not (k == LACKS and lacks):
            p.grad = torch.full_like(p, (k + 1) * 10.0**rank)
    student(model)
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
    return torch.cat([g.detach().float().flatten() for g in grads])


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by what stands in which gradient of which rank."""
    label, n = round_.case.label, round_.n
    if round_.failures:
        return _failed(round_)
    if any(len(s.values) != sum(SIZES) for s in round_.ranks):
        return None
    parts = [_by_parameter(s.values) for s in round_.ranks]
    kept = [[(k + 1) * 10.0**r for k in range(4)] for r in range(n)]
    carried = [m for m in round_.ranks[0].messages if m.peer is None]
    if n > 1 and label == ALL:
        if all(_is(p[0], own[0]) and _is(p[3], own[3]) for p, own in zip(parts, kept, strict=True)):
            key = "not_copied" if carried else "stayed_home"
            return Wrong(key, round_.label, rank=1, got=number(parts[1][0][0]), n=n)
        if "reduce" in round_.ranks[0].collectives:
            return Wrong("reduce", round_.label, rank=1, got=number(parts[1][0][0]), n=n)
    if label == ONE and _is(parts[-1][LACKS], 0.0):
        return Wrong("kept_none", round_.label, rank=n - 1, name=NAMES[LACKS])
    return _same_on_all(round_, parts[0], kept)


def _same_on_all(round_: Round, part: list[list[float]], kept: list[list[float]]) -> Wrong | None:
    n = round_.n
    sums = [sum(own[k] for own in kept) for k in range(4)]
    facts = {"n": n, "got": number(part[0][0]), "want": number(sums[0] / n)}
    if n > 1:
        if all(_is(p, s) for p, s in ((part[0], sums[0]), (part[2], sums[2]))):
            return Wrong("sum", round_.label, **facts)
        if all(_is(p, s / n / n) for p, s in ((part[0], sums[0]), (part[2], sums[2]))):
            return Wrong("twice", round_.label, **facts)
    by_value = {round(s / n, 3): k for k, s in enumerate(sums)}
    for k, numbers_ in enumerate(part):
        foreign = [by_value.get(round(v, 3), k) for v in numbers_]
        if any(j != k for j in foreign):
            other = next(j for j in foreign if j != k)
            names = {"name": NAMES[k], "other": NAMES[other]}
            key = "rows" if part == _cut_by_rows(sums, n) else "order"
            return Wrong(key, round_.label, **names)
    return None


def _cut_by_rows(sums: list[float], n: int) -> list[list[float]]:
    """What an offset of `len(p)` instead of the number of elements cuts out."""
    flat = [
        torch.tensor(s / n).item() for s, size in zip(sums, SIZES, strict=True) for _ in range(size)
    ]
    starts = [sum(shape[0] for shape in SHAPES[:k]) for k in range(4)]
    return [flat[a : a + size] for a, size in zip(starts, SIZES, strict=True)]


def _failed(round_: Round) -> Wrong | None:
    label, n = round_.case.label, round_.n
    if any(f.mismatch or f.waited_in for _, f in round_.failures) and label == ONE:
        counts = [sum(m.elements for m in s.messages if m.peer is None) for s in round_.ranks]
        facts = {"first": counts[0], "other": counts[-1], "rank": n - 1, "name": NAMES[LACKS]}
        return Wrong("skips", round_.label, **facts)
    own = [(rank, f) for rank, f in round_.failures if f.own]
    if own and label in (NOBODY, ONE):
        rank, failure = own[0]
        return Wrong("no_gradient", round_.label, rank=rank, name=NAMES[LACKS], error=failure.error)
    return None


def _too_much(round_: Round) -> Wrong | None:
    """More messages, or more bytes, than needed, where every number is right."""
    messages = [m for m in round_.ranks[0].messages if m.peer is None]
    kinds, sent = 1 + (round_.case.label == TYPES), sum(m.bytes for m in messages)
    if round_.case.label == TYPES and sent > 4 * sum(SIZES[:2]) + 2 * sum(SIZES[2:]):
        return Wrong("promoted", round_.label, name=NAMES[2], sent=sent, own=2 * SIZES[2])
    if len(messages) > kinds:
        return Wrong("many", round_.label, count=len(messages), parameters=len(SIZES))
    return None


def _by_parameter(values: list[float]) -> list[list[float]]:
    found, offset = [], 0
    for size in SIZES:
        found.append(values[offset : offset + size])
        offset += size
    return found


def _is(values: list[float], value: float) -> bool:
    return all(abs(v - value) <= 1e-4 * max(1.0, abs(value)) for v in values)
