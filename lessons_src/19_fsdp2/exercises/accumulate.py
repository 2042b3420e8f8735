"""Exercise 19.2: the gradient of a global batch from several micro-batches, reduced once.

The model multiplies each sample by a weight and adds up, so a weight's gradient is the sum of the
samples. A sample of rank r is r + 1 in the first micro-batch, ten times that in the second, a
hundred times in the third; ranks and micro-batches may have different numbers of samples.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from dtlib.learn.explanations import number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from ..trace import ROOT, Trace

WIDTH, UNITS = 4, 3
UNEVEN = ((1, 2, 5), (3, 7, 1), (2, 1, 4))  # samples by micro-batch and rank; no two sums agree
STEPS = 2  # the second shows what the first has left behind

accumulate = solution("accumulate", globals())


class Scale(nn.Module):
    """Multiply by a weight and add up."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return (x[:, None] * self.weight).sum()


class Model(nn.Module):
    """Two units and the root's own weight, all with the same gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Scale(), Scale()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x, y):
        """The sum of the losses of the samples."""
        return self.first(x) + self.second(x) + (x[:, None] * self.scale).sum() - y.sum()


@dataclass
class Found:
    """The gradient of each unit's weight after each step, and how many reductions it took."""

    gradients: list[list[float]]
    reductions: list[int] = field(compare=False)
    early: int = field(compare=False)  # forwards before the first backward
    forwards: int = field(compare=False)  # in the last step


def samples(rank, micro_batch, even):
    """How many samples a rank has in a micro-batch."""
    return 3 if even else UNEVEN[micro_batch][rank]


def parts(rank, many, even, step):
    """The micro-batches of a rank: samples, and labels of which only the number matters."""
    sizes = [samples(rank, k, even) for k in range(many)]
    value = (step + 1.0) * (rank + 1)
    return [(torch.full((n,), value * 10**k), torch.zeros(n)) for k, n in enumerate(sizes)]


def run(answer, many, even):
    mesh = DeviceMesh.from_group(dist.distributed_c10d._get_default_group(), "cpu")
    model = Model()
    for unit in (model.first, model.second, model):
        fully_shard(unit, mesh=mesh)
    trace, found = Trace(model), Found([], [], 0, 0)
    for step in range(STEPS):
        with trace.watching() as events:
            answer(model, parts(dist.get_rank(), many, even, step))
        grads: list[Any] = [p.grad for p in model.parameters()]
        if any(grad is None for grad in grads):
            raise Wrong("not_reduced", step=step + 1, k=many)
        whole = [grad.full_tensor() for grad in grads]
        found.gradients.append([float(grad[0]) for grad in whole])
        kinds = [event.kind for event in events if event.unit == ROOT]
        found.reductions.append(sum(event.kind == "reduce" for event in events))
        found.early = kinds[: kinds.index("backward")].count("forward")
        found.forwards = kinds.count("forward")
        model.zero_grad()
    return found


def waste(got, many, n):
    if got[0].early > 1:
        return Wrong("one_backward", k=many[0])
    if got[0].forwards != many[0]:
        return Wrong("forwards", forwards=got[0].forwards, k=many[0])
    for step, reductions in enumerate(got[0].reductions):
        if n > 1 and reductions > UNITS:
            key = "each_time" if reductions == UNITS * many[0] else "too_often"
            return Wrong(key, step=step + 1, reductions=reductions, k=many[0])
    return None


def facts(got, want, many, even, n):
    """The first gradient that is wrong."""
    pairs = [
        (k, a, b)
        for k, (mine, right) in enumerate(zip(got[0].gradients, want[0].gradients, strict=True))
        for a, b in zip(mine, right, strict=True)
    ]
    off = [pair for pair in pairs if not abs(pair[1] - pair[2]) <= 1e-5 * abs(pair[2])]
    step, value, right = (off or pairs)[0]
    counts = [[samples(r, k, even[0]) for k in range(many[0])] for r in range(n)]
    return {
        "got": number(value), "want": number(right), "ratio": number(value / right),
        "step": step + 1, "k": many[0], "own": sum(counts[0]), "count": sum(map(sum, counts)),
        "counts": "; ".join(f"rank {r}: {' + '.join(map(str, c))}" for r, c in enumerate(counts)),
    }  # fmt: skip


def no_context(seen):
    """Recognises DDP's way of saying it, which FSDP2 does not have."""
    return all(s.failure and "no attribute 'no_sync'" in s.failure.message for s in seen)


def not_in_gloo(seen):
    """FSDP2 makes its own divisor a part of the reduction, which Gloo can't do."""
    return all(s.failure and "PREMUL_SUM" in s.failure.message for s in seen)


def own_divisor(model, parts):
    count = torch.tensor(float(sum(y.numel() for x, y in parts)))
    dist.all_reduce(count)
    for unit in (model, model.first, model.second):
        unit.set_gradient_divide_factor(count.item())
    for i, (x, y) in enumerate(parts):
        model.set_requires_gradient_sync(i == len(parts) - 1)
        model(x, y).backward()


def count_gone(seen):
    """A collective works in place and returns None, with which nothing can be divided."""
    return all(s.failure and "NoneType" in s.failure.message for s in seen)


def passed(seen):
    last = seen[-1][0]
    return Passed((("reduce-scatters in a step", last.got.reductions[0], UNITS, ""),))


def case(n, many, even):
    each = "3 samples each" if even else "of 1 to 7 samples"
    words = f"{many} micro-batch{'es' * (many > 1)}, {each}"
    return n, words, lambda rank, n: (many, even)


def means_of_micro_batches(model, parts):
    """Each micro-batch is divided by its own number of samples over all ranks."""
    for i, (x, y) in enumerate(parts):
        model.set_requires_gradient_sync(i == len(parts) - 1)
        count = torch.tensor(float(len(y)))
        dist.all_reduce(count)
        (model(x, y) * dist.get_world_size() / count / len(parts)).backward()


# words of the solution
SYNC = "model.set_requires_gradient_sync(i == len(parts) - 1)"
COUNT, REDUCE = "sum(y.numel() for x, y in parts)", "dist.all_reduce(count)"
LOSS, N = "loss * n / count", "n = dist.get_world_size()"

EXERCISE = RankAnswer(
    accumulate,
    run=run,
    cases=[case(1, 2, True), case(3, 2, True), case(3, 2, False), case(3, 3, False)],
    mistakes=[
        ("sum", {LOSS: "loss * n"}),
        ("sum", {LOSS: "loss"}),
        ("not_times_n", {LOSS: "loss / count"}),
        ("own_count", {REDUCE: "pass", LOSS: "loss / count"}),
        ("own_count_times_n", {REDUCE: "pass"}),
        ("mean_of_means", {LOSS: "loss / len(y) / len(parts)"}),
        ("mean_of_means", means_of_micro_batches),
        ("means_added", {LOSS: "loss / len(y)"}),
        ("means_added", {LOSS: "loss * n / len(y)"}),
        ("parts_counted", {LOSS: "loss / len(parts)"}),
        ("parts_counted", {LOSS: "loss * n / len(parts)"}),
        ("parts_counted", {COUNT: "len(parts)"}),
        ("divided_by_k", {LOSS: f"{LOSS} / len(parts)"}),
        ("last_only", {SYNC: "model.zero_grad()"}),
        ("last_only", {f"({LOSS}).backward()": f"if i == len(parts) - 1: ({LOSS}).backward()"}),
        ("first_only", {"i == len(parts) - 1": "i == 0"}),
        Mistake("no_sync", {SYNC: "model.no_sync()"}, when=no_context),
        Mistake("not_in_gloo", own_divisor, when=not_in_gloo),
        Mistake("count_gone", {REDUCE: "count = dist.all_reduce(count)"}, when=count_gone),
        ("padded_count", {COUNT: "len(parts) * len(parts[0][1])"}),
    ],
    other="unrecognised",
    same=1e-5,
    wire=lambda seen: seen.got.reductions,  # a needless all-reduce is no other mistake
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
