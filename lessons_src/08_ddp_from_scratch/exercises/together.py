"""Exercise 8.1: a training loop whose ranks stay equal to one process.

The painted model is one weight, which starts at r on rank r. Its loss is (w·x - y)² with x = 1 and
y = -10**r / 2, so that from the start of rank 0 (w = 0) the gradient is 10**r, and one step of SGD
with lr 1 on three ranks ends at -37, the mean of 1, 10 and 100.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number, numbers

PAINTED, SGD, ADAMW = "one weight, one step", "SGD with momentum", "AdamW"
LABELS = (PAINTED, SGD, ADAMW)
STEPS = 3
# float64 rounds by 1e-16, and three steps carry that on; the smallest mistake is above 1e-4.
ROUNDING = 1e-10


def reference(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Any) -> None:
    """Start from rank 0's weights, and average every gradient before each step."""
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        for p in model.parameters():
            assert p.grad is not None
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()


def check(student: Callable[..., Any]) -> Passed:
    """Train on 1, 3 and 4 ranks: painted, then with two optimizers against one process."""
    cases = [_case(k) for k in range(len(LABELS))]
    rounds = examine(functools.partial(_on_rank, student), [(n, cases) for n in (1, 3, 4)], explain)
    ranks = rounds[-1].ranks
    gap = max(abs(a - b) for s in ranks for a, b in zip(s.values, s.want, strict=True))
    return Passed(
        ((f"largest distance from one process, {ADAMW}, 4 ranks", f"{gap:.0e}", "< 1e-10", ""),)
    )


def _case(kind: int) -> Case:
    return Case(
        LABELS[kind],
        make=lambda rank, n: torch.tensor([float(kind)]),
        want=lambda rank, n: _alone(kind, n),
        tolerance=ROUNDING,
    )


def _on_rank(student: Callable[..., Any], code: torch.Tensor) -> torch.Tensor:
    kind, rank, n = int(code), dist.get_rank(), dist.get_world_size()
    model, optimizer = _start(kind, rank)
    student(model, optimizer, [_share(kind, step, rank, n) for step in range(_steps(kind))])
    return _weights(model)


def _steps(kind: int) -> int:
    return STEPS if kind else 1


def _start(kind: int, rank: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """The model as this rank draws it, and its optimizer."""
    torch.manual_seed(rank)
    if kind == 0:
        one = nn.Linear(1, 1, bias=False).double()
        nn.init.constant_(one.weight, float(rank))
        return one, torch.optim.SGD(one.parameters(), lr=1.0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    if kind == 1:
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def _share(kind: int, step: int, rank: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    if kind == 0:
        y = torch.full((1, 1), -(10.0**rank) / 2, dtype=torch.float64)
        return torch.ones_like(y), y
    x, y = _batch(step)
    return x.chunk(n)[rank], y.chunk(n)[rank]


def _batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    x, y = (torch.randn(12, k, generator=generator, dtype=torch.float64) for k in (3, 2))
    return x, y


def _alone(kind: int, n: int) -> torch.Tensor:
    """What one process has at the end, from the start of rank 0."""
    if kind == 0:
        return torch.tensor([-sum(10.0**r for r in range(n)) / n])
    model, optimizer = _start(kind, 0)
    for step in range(STEPS):
        x, y = _batch(step)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return _weights(model)


def _weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by the weights that it leaves."""
    values = [v for v in round_.first_values if v is not None]
    if round_.failures or len(values) < round_.n:
        return None
    if round_.case.label != PAINTED:
        return _with_an_optimizer(round_)
    n = round_.n
    paints = [10.0**rank for rank in range(n)]
    total = sum(paints)
    facts = {"n": n, "got": numbers(values), "want": number(-total / n)}
    if n == 1:
        return Wrong("literal", round_.label, **facts) if values[0] else None
    apart = [v - values[0] for v in values]
    if _close(apart, range(n)):
        return Wrong("start", round_.label, **facts)
    if max(apart) - min(apart) < 1e-3:
        return _all_agree(round_, -values[0], total, facts)
    return _they_differ(round_, values, paints, facts)


def _all_agree(round_: Round, moved: float, total: float, facts: dict[str, Any]) -> Wrong | None:
    n = round_.n
    mean_start = sum(range(n)) / n
    if _close([moved], [total]):
        return Wrong("sum", round_.label, **facts)
    if _close([moved], [1.0]):
        return Wrong("rank_0", round_.label, unused=n - 1, **facts)
    if _close([moved], [total / n / n]):
        return Wrong("twice", round_.label, **facts)
    if _close([moved], [total / n + mean_start]):
        return Wrong("mean_start", round_.label, start=number(mean_start), **facts)
    if n > 2 and _close([moved], [total / (n - 1)]):
        return Wrong("literal", round_.label, **facts)
    return None


def _they_differ(
    round_: Round, values: list[float], paints: list[float], facts: dict[str, Any]
) -> Wrong | None:
    if "reduce" in round_.ranks[0].collectives:
        return Wrong("reduce", round_.label, **facts)
    own = [-paint for paint in paints]
    scattered = [rank - 2.0 * rank - paint for rank, paint in enumerate(paints)]
    if not _close(values, own) and not _close(values, scattered):
        return None
    carried = [m.values[0] for m in round_.ranks[1].messages if m.kind == "all_reduce" and m.values]
    if not carried:
        return Wrong("stayed_home", round_.label, **facts)
    if any(abs(v) in (10.0, 10.0 / round_.n) or _close([v], [10.0 / round_.n]) for v in carried):
        return Wrong("clone", round_.label, rank=1, **facts)
    loss = paints[1] ** 2 / 4
    if any(_close([v], [loss]) or _close([v], [loss / round_.n]) for v in carried):
        return Wrong("loss", round_.label, **facts)
    return None


def _with_an_optimizer(round_: Round) -> Wrong | None:
    seen = round_.ranks
    gap = max(abs(a - b) for s in seen for a, b in zip(s.values, s.want, strict=True))
    agree = all(s.bits == seen[0].bits for s in seen)
    # SGD adds up gradients, so that averaged weights are those of averaged gradients.
    key = "weights" if round_.case.label == ADAMW and agree else "drift"
    return Wrong(key, round_.label, n=round_.n, gap=f"{gap:.2g}", optimizer=round_.case.label)


def _close(found: Any, wanted: Any) -> bool:
    return all(abs(a - b) <= 1e-4 * max(1.0, abs(b)) for a, b in zip(found, wanted, strict=True))
