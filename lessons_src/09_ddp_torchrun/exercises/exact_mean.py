"""Exercise 9.2: the mean over all samples, of which padding has put some on two ranks.

The values are powers of ten, so a sum tells what is in it: 11111 is every sample once, 21111 has
the first one twice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number, numbers

Values = tuple[float, ...]
PAINTED: Values = (10000, 1000, 100, 10, 1)
ALIKE: Values = (2, 2, 2, 2, 4, 4, 12)  # a value that comes twice may be two samples
SINGLE: Values = (6,)


def reference(values: torch.Tensor, samples: int) -> float:
    """Sum and count of the places below `samples`, over all ranks."""
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = values[rank + n * torch.arange(len(values)) < samples]
    sum_and_count = torch.tensor([float(mine.sum()), float(len(mine))])
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count.tolist()
    return total / count


def check(student: Callable[..., Any]) -> Passed:
    """Run the student's function on 1, 3 and 4 ranks, with 5, 7 and 1 samples."""
    cases = [_case(values) for values in (PAINTED, ALIKE, SINGLE)]
    # On one rank the sum over the ranks is the mean over them: that is told apart on three.
    plan = [(1, cases[-1:]), (3, cases), (4, cases)]
    rounds = examine(functools.partial(_on_rank, student), plan, explain)
    last = rounds[-1].ranks[0]
    given = sum(m.bytes for m in last.messages)
    return Passed(
        (
            ("calls of a collective", len(last.collectives), 1, ""),
            ("bytes given to it by rank 0 of 4", given, 8, "bytes"),
        )
    )


def _on_rank(student: Callable[..., Any], packed: torch.Tensor) -> Any:
    return student(packed[1:].clone(), int(packed[0]))


def dealt(samples: Values, n: int) -> list[list[float]]:
    """The values of each rank: dealt like cards, and padded with the first ones."""
    each = -(-len(samples) // n)
    row = (samples * n)[: each * n]
    return [list(row[rank::n]) for rank in range(n)]


def _case(samples: Values) -> Case:
    return Case(
        f"{len(samples)} sample{'s' * (len(samples) > 1)} of {_listed(samples)}",
        make=lambda rank, n: torch.tensor([len(samples), *dealt(samples, n)[rank]]).float(),
        want=lambda rank, n: torch.tensor(sum(samples) / len(samples)),
        tolerance=1e-5,
    )


def _listed(values: Values | list[float]) -> str:
    return ", ".join(number(v) for v in values)


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by what came back on which rank."""
    packed = [round_.case.make(rank, round_.n).tolist() for rank in range(round_.n)]
    hands, samples = [p[1:] for p in packed], int(packed[0][0])
    if round_.failures:
        return _failed(round_, hands, samples)
    if all(seen.kind == "none" and seen.collectives for seen in round_.ranks):
        return Wrong("in_place", round_.label, call=round_.ranks[0].collectives[-1])
    if any(v is None for v in round_.first_values) or any(len(s.values) != 1 for s in round_.ranks):
        return None
    values = [float(v) for v in round_.first_values if v is not None]
    if any(map(math.isnan, values)):
        return _nan(round_, hands, samples)
    if max(values) - min(values) <= 1e-4 * max(map(abs, values)):
        return _all_agree(round_, hands, samples, values[0])
    return _they_differ(round_, hands, samples, values)


def _real(hands: list[list[float]], samples: int) -> list[list[float]]:
    """The hands without padding."""
    n = len(hands)
    return [[v for k, v in enumerate(h) if r + k * n < samples] for r, h in enumerate(hands)]


def _failed(round_: Round, hands: list[list[float]], samples: int) -> Wrong | None:
    real = _real(hands, samples)
    short = [r for r, own in enumerate(real) if len(own) < len(hands[r])]
    if any(f.mismatch for _, f in round_.failures) and short:
        facts = {"first": len(real[0]), "rank": short[-1], "other": len(real[short[-1]])}
        return Wrong("uneven_gather", round_.label, **facts)
    most = max(len(s.collectives) for s in round_.ranks)
    absent = [s.rank for s in round_.ranks if s.failure is None and len(s.collectives) < most]
    if absent and not real[absent[0]]:
        return Wrong("left_early", round_.label, rank=absent[0])
    return None


def _nan(round_: Round, hands: list[list[float]], samples: int) -> Wrong | None:
    empty = [rank for rank, own in enumerate(_real(hands, samples)) if not own]
    return Wrong("nan", round_.label, rank=empty[0]) if empty else None


def _all_agree(round_: Round, hands: list[list[float]], samples: int, got: float) -> Wrong | None:
    real = _real(hands, samples)
    n, rows = len(hands), sum(map(len, hands))
    total, padded = sum(map(sum, real)), sum(map(sum, hands))
    facts = {"got": number(got), "total": number(total), "padded": number(padded), "rows": rows}
    facts |= {"samples": samples, "n": n, "extra": rows - samples}
    for key, wrong in _candidates(hands, real, samples):
        if _near(got, wrong):
            return Wrong(key, round_.label, **facts)
    return None


def _candidates(
    hands: list[list[float]], real: list[list[float]], samples: int
) -> list[tuple[str, float]]:
    """What each mistake would give; those that give what is right here are no candidates."""
    n, rows = len(hands), sum(map(len, hands))
    total, padded = sum(map(sum, real)), sum(map(sum, hands))
    found = [
        ("counts_padding", padded / rows),
        ("padding_in_sum", padded / samples),
        ("padding_in_count", total / rows),
        ("mean_of_means", sum(sum(own) / max(1, len(own)) for own in real) / n),
        ("by_ranks", total / n),
        ("sum_only", total),
    ]
    by_rank = [v for hand in hands for v in hand]
    found.append(("order_of_ranks", sum(by_rank[:samples]) / samples))
    different = set(by_rank)
    found.append(("unique", sum(different) / len(different)))
    shorter = [hand[:-1] for hand in hands]
    kept = sum(map(len, shorter))
    if kept:
        found.append(("last_of_all", sum(map(sum, shorter)) / kept))
    first = [hand[:-1] if rank < rows - samples else hand for rank, hand in enumerate(hands)]
    found.append(("first_ranks", sum(map(sum, first)) / max(1, sum(map(len, first)))))
    return [(key, value) for key, value in found if not _near(value, total / samples)]


def _they_differ(
    round_: Round, hands: list[list[float]], samples: int, values: list[float]
) -> Wrong | None:
    real = _real(hands, samples)
    right = sum(map(sum, real)) / samples
    for own in (hands, real):
        if all(_near(v, sum(h) / len(h)) for v, h in zip(values, own, strict=True) if h):
            return Wrong("stayed_home", round_.label, got=numbers(values))
    good = [r for r, v in enumerate(values) if _near(v, right)]
    bad = [r for r, v in enumerate(values) if not _near(v, right)]
    if good and "reduce" in round_.ranks[0].collectives:
        facts = {"rank": bad[0], "got": number(values[bad[0]]), "root": good[0]}
        return Wrong("reduce", round_.label, want=number(right), **facts)
    return None


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-4 * max(1.0, abs(b))
