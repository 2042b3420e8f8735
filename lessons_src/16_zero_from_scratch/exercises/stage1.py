"""Exercise 16.1: every rank keeps the optimizer of its own part of the weights, and of no more.

Weights start at 0 and rank r's gradient is -10**r, so after one step of SGD with a learning rate
of 1 a weight is the mean over the ranks: 37 of 1, 10 and 100. Then real numbers run, against one
process that has the mean gradient, with SGD that has momentum and with AdamW.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number, numbers, read_paint
from dtlib.scratch import ring
from dtlib.sim.states import share

from ..elements import elements_sent
from .kept import bytes_kept

PSI = 10
SMALL = 0.001  # a step that bf16 near 1 rounds away
ROUNDING = 1e-5  # fp32, three steps of sums of at most four numbers of order 1

Make = Callable[[list[torch.Tensor]], torch.optim.Optimizer]


def reference(weights: torch.Tensor, make_optimizer: Make) -> Callable[[torch.Tensor], None]:
    """Reduce-scatter the gradient, update the own part, all-gather the weights."""
    rank, n = dist.get_rank(), dist.get_world_size()
    own = weights.tensor_split(n)[rank]
    master = own.float()  # in fp32 `own` itself
    optimizer = make_optimizer([master])

    def step(gradient: torch.Tensor) -> None:
        master.grad = ring.reduce_scatter(gradient).float() / n
        optimizer.step()
        own.copy_(master)
        optimizer.zero_grad()
        ring.all_gather(weights)

    return step


def sgd(params: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Momentum, and steps as long as the gradient."""
    return torch.optim.SGD(params, lr=1.0, momentum=0.9)


def adamw(params: list[torch.Tensor]) -> torch.optim.Optimizer:
    """As training has it."""
    return torch.optim.AdamW(params, lr=0.01, weight_decay=0.1)


# What a case runs: its words, optimizer, steps, whether in bf16.
RUNS: tuple[tuple[str, Make, int, bool], ...] = (
    ("one step of SGD", sgd, 1, False),
    ("three steps of SGD with momentum", sgd, 3, False),
    ("three steps of AdamW", adamw, 3, False),
    ("100 steps of 0.001 in bf16", sgd, 100, True),
)
PAINTED, MOMENTUM, ADAMW, LOW = range(4)


class NoStep(Exception):
    """What came back cannot be called; the text says what it is."""


def check(student: Callable[..., Any]) -> Passed:
    """Run the student's optimizer on 1, 3 and 4 ranks, with 10 weights."""
    for n, which in ((1, (PAINTED, ADAMW)), (3, range(4)), (4, range(3))):
        plan = [(n, [_case(k) for k in which])]
        rounds = examine(functools.partial(_on_rank, student), plan, explain)
        for look in (_held, _sent):
            for round_ in rounds:
                look(round_)
    last = rounds[-1]
    state = max(_state(seen.values) for seen in last.ranks)
    most = max(elements_sent(seen.messages, 4) for seen in last.ranks) / RUNS[ADAMW][2]
    return Passed(
        (
            ("AdamW's state on a rank of 4", state, 8 * share(PSI, 4), "bytes"),
            ("sent by a rank of 4 in a step, at most", number(most), 6 * share(PSI, 4), "elements"),
        ),
        "Equal to one process with SGD and with AdamW.",
    )


def _case(which: int) -> Case:
    words, _, _, low = RUNS[which]
    tolerance = 0.01 if low else ROUNDING  # bf16 near 1.1 rounds by 1/256

    def want(rank: int, n: int) -> torch.Tensor:
        return serial(which, n)

    def judge(result: torch.Tensor, rank: int, n: int) -> bool:
        found, right = result[:PSI].double(), want(rank, n).double()
        return bool(torch.allclose(found, right, rtol=tolerance, atol=tolerance))

    return Case(f"{PSI} weights, {words}", lambda rank, n: torch.tensor(which), want, judge=judge)


def start(which: int) -> torch.Tensor:
    """The weights before the first step."""
    if which == PAINTED:
        return torch.zeros(PSI)
    if which == LOW:
        return torch.ones(PSI, dtype=torch.bfloat16)
    return torch.linspace(-1, 1, PSI)


def gradient(which: int, rank: int, step: int) -> torch.Tensor:
    """What backward left on a rank."""
    if which == PAINTED:
        return torch.full((PSI,), -(10.0**rank))
    if which == LOW:
        # Momentum 0.9 makes ten of it in the long run.
        return torch.full((PSI,), -SMALL / 10, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(10 * step + rank)
    return torch.randn(PSI, generator=generator)


def serial(which: int, n: int, renewed: bool = False) -> torch.Tensor:
    """The weights of one process that has everybody's gradients; `renewed`: a new optimizer each
    step, which has forgotten all.
    """
    _, make, steps, _ = RUNS[which]
    weights = start(which).float()
    optimizer = make([weights])
    for step in range(steps):
        if renewed:
            optimizer = make([weights])
        weights.grad = torch.stack([gradient(which, r, step).float() for r in range(n)]).mean(0)
        optimizer.step()
    return weights


def _on_rank(student: Callable[..., Any], which: torch.Tensor) -> Any:
    """Return the weights, then the bytes of the optimizer's state, and of all that is kept."""
    k = int(which)
    _, make, steps, _ = RUNS[k]
    made: list[torch.optim.Optimizer] = []

    def noted(params: Any) -> torch.optim.Optimizer:
        made.append(make(params))
        return made[-1]

    weights = start(k)
    step = student(weights, noted)
    if not callable(step):
        raise NoStep("nothing" if step is None else f"a {type(step).__name__}")
    gradients = [gradient(k, dist.get_rank(), number_) for number_ in range(steps)]
    for own in gradients:
        step(own)
    found = [v for optimizer in made for state in optimizer.state.values() for v in state.values()]
    state = sum(v.nbytes for v in found if isinstance(v, torch.Tensor) and v.dim())
    kept = bytes_kept([step, *made], [weights, *gradients])
    behind = torch.tensor([float(state), float(kept)])
    return torch.cat([weights.detach().float().flatten(), behind])


def _state(values: Sequence[float]) -> int:
    return int(values[-2])


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by the weights that it leaves on each rank."""
    own = [f for _, f in round_.failures if f.error == "NoStep"]
    if own:
        return Wrong("no_step", round_.label, what=own[0].message)
    if round_.failures or any(len(seen.values) != PSI + 2 for seen in round_.ranks):
        return None
    which = int(round_.case.make(0, round_.n))
    weights = [seen.values[:PSI] for seen in round_.ranks]
    want = serial(which, round_.n).tolist()
    if which == LOW:
        return _in_bf16(round_, weights, want)
    if which != PAINTED:
        return _forgot(round_, which, weights) or _differs(round_, weights, want)
    return _painted(round_, weights, want[0]) or _differs(round_, weights, want)


def _painted(round_: Round, weights: list[list[float]], want: float) -> Wrong | None:
    n, facts = round_.n, {"want": number(want), "n": round_.n, "got": number(weights[0][0])}
    everything = [w for own in weights for w in own]
    if not any(everything):
        return Wrong("unmoved", round_.label, **facts)
    blocks = torch.arange(PSI).tensor_split(n)
    for rank, own in enumerate(weights if n > 1 else []):
        right = [j for j, w in enumerate(own) if _near(w, want)]
        stale = [j for j, w in enumerate(own) if w == 0]
        if right == blocks[rank].tolist() and len(right) + len(stale) == PSI:
            if rank == 0:  # its neighbour's block lies in the middle: plainer to read
                continue
            return _stale(round_, rank, right, want)
    if all(_near(w, want) for own in weights for w in own[: PSI - PSI % n]):
        facts |= {"each": PSI // n, "psi": PSI, "rest": PSI % n, "last": number(weights[0][-1])}
        return Wrong("remainder", round_.label, **facts)
    if all(_near(w, 10.0**r) for own in weights for r in range(n) for w in [own[blocks[r][0]]]):
        return Wrong(
            "own_gradient", round_.label, block=f"{blocks[1][0]} to {blocks[1][-1]}", **facts
        )
    for key, factor in (("sum", n), ("divided_twice", 1 / n)):
        if n > 1 and all(_near(w, want * factor) for w in everything):
            return Wrong(key, round_.label, **facts)
    return None


def _stale(round_: Round, rank: int, right: list[int], want: float) -> Wrong:
    """Right in its own part alone: nothing came from the others, or not what was needed."""
    seen, n = round_.ranks[rank], round_.n
    facts = {"rank": rank, "own": f"{right[0]} to {right[-1]}", "n": n}
    sent = elements_sent(seen.messages, n)
    half = (n - 1) * share(PSI, n)
    if sent <= half:
        return Wrong("no_gather", round_.label, **facts)
    carried = [v for m in seen.messages for v in m.values]
    key = "moments" if any(_near(v, -want) for v in carried[-2:]) else "lost_gather"
    return Wrong(key, round_.label, sent=number(sent), **facts)


def _in_bf16(round_: Round, weights: list[list[float]], want: list[float]) -> Wrong:
    facts = {"got": number(weights[0][0]), "want": f"{want[0]:.2f}", "steps": RUNS[LOW][2]}
    if all(_near(w, 1.0) for own in weights for w in own):
        return Wrong("no_master", round_.label, **facts)
    return _differs(round_, weights, want)


def _forgot(round_: Round, which: int, weights: list[list[float]]) -> Wrong | None:
    fresh = serial(which, round_.n, renewed=True).tolist()
    if all(_near(a, b) for own in weights for a, b in zip(own, fresh, strict=True)):
        return Wrong("renewed", round_.label, steps=RUNS[which][2])
    return None


def _differs(round_: Round, weights: list[list[float]], want: list[float]) -> Wrong:
    """What no other sentence fits: the first weight that is not that of one process."""
    tolerance = 0.01 if round_.case.label == _case(LOW).label else ROUNDING
    rank, j = next(
        ((r, j) for r, own in enumerate(weights) for j in range(PSI)
         if not abs(own[j] - want[j]) <= tolerance * (1 + abs(want[j]))),
        (0, 0),
    )  # fmt: skip
    got = weights[rank][j]
    painted = want[0] == want[-1] and math.isfinite(got)
    reading = read_paint(round(got * round_.n), round_.n) if painted else ""
    facts = {"rank": rank, "n": round_.n, "j": j, "got": number(got), "want": number(want[j])}
    return Wrong("weights", round_.label, reading=reading, all=numbers(weights[rank]), **facts)


def _held(round_: Round) -> None:
    """Equal weights: is only the own part's state held?"""
    moments = {_case(ADAMW).label: 2, _case(LOW).label: 1}.get(round_.case.label)
    if moments is None:
        return
    right = 4 * moments * share(PSI, round_.n)
    # beside the moments a master, and a gradient or another thing as long as the shard
    most = right + 8 * share(PSI, round_.n)
    for seen in round_.ranks:
        facts: dict[str, Any] = {"rank": seen.rank, "n": round_.n, "psi": PSI}
        if _state(seen.values) > right:
            got = _state(seen.values)
            raise Wrong("whole_state", round_.label, got=got, want=right, **facts)
        if seen.values[-1] > most:
            got = int(seen.values[-1])
            raise Wrong("whole_copy", round_.label, got=got, want=most, **facts)


def _sent(round_: Round) -> None:
    """Equal weights and little held: was no more sent than needed?"""
    n, steps = round_.n, RUNS[int(round_.case.make(0, 1))][2]
    for seen in round_.ranks:
        got, once = elements_sent(seen.messages, n) / steps, (n - 1) * share(PSI, n)
        if got > 2 * once:
            key = "three_halves" if got <= 3 * once else "too_much"
            facts = {"got": number(got), "want": 2 * once, "rank": seen.rank, "n": n}
            raise Wrong(key, round_.label, psi=PSI, **facts)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-4 * max(1.0, abs(b))
