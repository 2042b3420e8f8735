"""Exercise 8.1: a training loop whose ranks stay equal to one process.

The painted model is one weight, which starts at r on rank r. Its loss is (w·x - y)² with x = 1 and
y = -10**r / 2, so that from the start of rank 0 (w = 0) the gradient is 10**r, and one step of SGD
with lr 1 on three ranks ends at -37, the mean of 1, 10 and 100.
"""

import contextlib
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from dtlib.learn.explanations import not_waited, number, numbers
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.reports import close
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

PAINTED, SGD, ADAMW = "one weight, one step", "SGD with momentum", "AdamW"
STEPS = 3
# float64 rounds by 1e-16, and three steps carry that on; the smallest mistake is above 1e-4.
ROUNDING = 1e-10
# words of the solution
START, SUM, DIVIDE, BACKWARD, STEP = (
    "dist.broadcast(p.data, src=0)",
    "dist.all_reduce(p.grad)",
    "p.grad /= dist.get_world_size()",
    "loss.backward()",
    "optimizer.step()",
)
N = "dist.get_world_size()"
ALONE = {SUM: "", DIVIDE: "pass"}

train_together = solution("train_together", globals())


def run(answer, what):
    """The weights after training on this rank's share of each batch."""
    rank, n = dist.get_rank(), dist.get_world_size()
    model, optimizer = drawn(what, rank)
    if what == PAINTED:
        y = torch.full((1, 1), -(10.0**rank) / 2, dtype=torch.float64)
        batches = [(torch.ones_like(y), y)]
    else:
        batches = [(x.chunk(n)[rank], y.chunk(n)[rank]) for x, y in map(batch, range(STEPS))]
    with without_ddp():
        answer(model, optimizer, batches)
    return weights_of(model)


@contextlib.contextmanager
def without_ddp():
    """Refuse torch's own, which this exercise builds; in a check's debug mode it would crash."""

    def refuse(*_args, **_kwargs):
        raise Wrong("torchs_own")

    with mock.patch.object(DistributedDataParallel, "__init__", refuse):
        yield


def drawn(what, rank):
    """The model as a rank draws it, and its optimizer."""
    torch.manual_seed(rank)
    if what == PAINTED:
        one = nn.Linear(1, 1, bias=False).double()
        nn.init.constant_(one.weight, float(rank))
        return one, torch.optim.SGD(one.parameters(), lr=1.0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    if what == SGD:
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def batch(step):
    generator = torch.Generator().manual_seed(100 + step)
    return [torch.randn(12, k, generator=generator, dtype=torch.float64) for k in (3, 2)]


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def alone(what, n):
    """What one process has at the end, from the start of rank 0."""
    if what == PAINTED:
        return torch.tensor([-sum(10.0**r for r in range(n)) / n])
    model, optimizer = drawn(what, 0)
    for x, y in map(batch, range(STEPS)):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return weights_of(model)


def gap(got, want):
    """The largest distance of a weight from where it should be."""
    return max(abs(a - b) for one in got for a, b in zip(one, want, strict=True))


def wire(seen):
    """What travelled, and whether all of it was waited for."""
    return travelled(seen), all(m.waited for m in seen.messages)


def travelled(seen):
    """Whether ranks talked about gradients or losses, where the weights do not say it."""
    sums = [m.values[0] for m in seen.messages if m.kind == "all_reduce" and m.values]
    loss = 100.0**seen.rank / 4
    if any(abs(value * k / loss - 1) < 1e-4 for value in sums for k in (1, 3, 4)):
        return "losses"
    return "gradients" if set(seen.collectives) - {"broadcast"} else "nothing"


def apart_as_drawn(got, n, what):
    """Every rank took the same steps, from a start of its own."""
    if what[0] != PAINTED or n == 1:
        return False
    return all(abs(w - got[0] - rank) < 1e-4 for rank, w in enumerate(got))


def facts(got, want, n, what):
    if what[0] == PAINTED:
        ends = {"got": numbers(got), "want": number(want[0])}
        return {**ends, "unused": n - 1, "start": number((n - 1) / 2)}
    return {"gap": f"{gap(got, want[0]):.2g}", "optimizer": what[0]}


def waste(seen):
    """A sum that was only started is right by luck alone."""
    found = not_waited(seen)
    return Wrong("never_waited", **found) if found else None


def passed(seen):
    last = gap([s.values for s in seen[-1]], alone(ADAMW, 4).tolist())
    return Passed(
        ((f"largest distance from one process, {ADAMW}, 4 ranks", f"{last:.0e}", "< 1e-10", ""),)
    )


def case(n, what):
    """So many ranks, each of which is told what to do by the words of the case."""
    return (n, what, lambda rank, n: what)


EXERCISE = RankAnswer(
    train_together,
    run=run,
    cases=[case(n, what) for n in (1, 3, 4) for what in (PAINTED, SGD, ADAMW)],
    judge=lambda got, what, n: close(got, alone(what, n), ROUNDING),
    wire=wire,
    mistakes=[
        Mistake("never_waited", {SUM: "dist.all_reduce(p.grad, async_op=True)"}, when=not_waited),
        Mistake(
            "literal",
            {DIVIDE: "p.grad /= 2"},
            when=lambda got, n, what: what[0] == PAINTED and n == 1 and got[0] != 0,
        ),
        ("literal", {DIVIDE: "p.grad /= max(1, dist.get_world_size() - 1)"}),
        Mistake("start", {START: "pass"}, when=apart_as_drawn),
        ("sum", {DIVIDE: ""}),
        ("rank_0", {SUM: "dist.broadcast(p.grad, src=0)", DIVIDE: ""}),
        ("twice", {DIVIDE: "p.grad /= dist.get_world_size() ** 2"}),
        ("mean_start", {START: "dist.all_reduce(p.data); p.data /= dist.get_world_size()"}),
        Mistake(
            "reduce",
            {SUM: "dist.reduce(p.grad, 0)"},
            when=lambda got, seen, what: what[0] == PAINTED and "reduce" in seen[0].collectives,
        ),
        ("stayed_home", ALONE),
        ("stayed_home", {START: "pass", **ALONE}),
        ("clone", {SUM: "dist.all_reduce(p.grad.clone())", DIVIDE: ""}),
        ("loss", {BACKWARD: f"dist.all_reduce(loss.data); {BACKWARD}", **ALONE}),
        ("loss", {BACKWARD: f"dist.all_reduce(loss.data); loss = loss / {N}; {BACKWARD}", **ALONE}),
        # SGD adds up gradients, so that averaged weights are those of averaged gradients.
        Mistake("weights", {STEP: "",
                            BACKWARD: f"{BACKWARD}; {STEP}",
                            SUM: "dist.all_reduce(p.data)",
                            DIVIDE: "p.data /= dist.get_world_size()"},
                when=lambda got, seen, what: (
                    what[0] == ADAMW and all(s.bits == seen[0].bits for s in seen)
                )),
        Mistake("drift", {"for x, y in batches": "for i, (x, y) in enumerate(batches)",
                          SUM: f"i or {SUM}",
                          DIVIDE: "p.grad /= 1 if i else dist.get_world_size()"},
                when=lambda got, what: what[0] != PAINTED),
    ],
    waste=waste,
    facts=facts,
    passed=passed,
)  # fmt: skip
