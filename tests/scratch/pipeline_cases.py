"""Runs of pipelines that the tests compare with one process, in float64."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.scratch import pipeline as p
from dtlib.scratch.blocks import blocks_of
from tests.scratch_cases import batch, mlp, optimizer, serial

SCHEDULES = {
    "gpipe": p.gpipe,
    "1f1b": p.one_forward_one_backward,
    "interleaved": p.interleaved(2),
    "zb-h1": p.zero_bubble_h1,
}
STEPS = 3


def squares(y, target):
    """The sum of the losses of a micro-batch."""
    return F.mse_loss(y, target, reduction="sum")


@dataclass
class Case:
    """A model of `widths`, cut for some schedule, and the batch that it is trained on."""

    schedule: str
    optimizer: str
    micro_batches: int
    samples: int
    widths: list[int]
    lists: list = field(repr=False)


def drawn(ranks: int, seed: str) -> list[Case]:
    """Every schedule, and one of no name, with both optimizers; all else at random."""
    draw = random.Random(f"{seed} {ranks}")
    cases = []
    for number in range(2 * (len(SCHEDULES) + 1)):
        name = [*SCHEDULES, "drawn"][number // 2]
        many = ranks * draw.randint(1, 2) if name == "interleaved" else draw.randint(1, 7)
        # A layer is two blocks: even with two stages on each rank, none is empty.
        widths = [draw.randint(3, 9) for _ in range(ranks + 1 + draw.randint(0, 2))]
        lists = (
            drawn_lists(draw, ranks, many)
            if name == "drawn"
            else p.for_all_ranks(SCHEDULES[name], ranks, many)
        )
        samples = many + draw.randint(0, 5)  # micro-batches need not be equally long
        kind = ("sgd", "adamw")[number % 2]
        cases.append(Case(name, kind, many, samples, [*widths, draw.randint(1, 9)], lists))
    return cases


def drawn_lists(draw: random.Random, ranks: int, many: int) -> list[list]:
    """A schedule that nobody would write: any order in which each line finds its input."""
    split = draw.random() < 0.5
    lists: list[list] = [[] for _ in range(ranks)]
    done: set = set()

    def possible():
        for m in range(many):
            for s in range(ranks):
                if s == 0 or p.Forward(m, s - 1) in done:
                    yield p.Forward(m, s)
                if p.Forward(m, s) in done and (s == ranks - 1 or ("back", m, s + 1) in done):
                    yield p.BackwardInput(m, s) if split else p.Backward(m, s)
                if p.BackwardInput(m, s) in done:
                    yield p.BackwardWeight(m, s)

    while left := [line for line in possible() if line not in done]:
        line = draw.choice(left)
        done.add(line)
        if isinstance(line, p.Backward | p.BackwardInput):
            done.add(("back", line.micro_batch, line.stage))
        lists[line.stage].append(line)
    return lists


def train(case: Case, pipeline_of=p.Pipeline, timeout: float = 20.0) -> dict:
    """Train on ranks and, beside it, the whole model in this process; what can be compared."""
    model = mlp(case.widths)
    alone = copy.deepcopy(model)
    worker = pipeline_of(blocks_of(model), case.lists, squares, timeout=timeout)
    batches = [batch(case.widths[0], case.widths[-1], case.samples, k) for k in range(STEPS)]
    want = serial(alone, case.optimizer, batches)
    mine = nn.ModuleList(worker.stages.values())
    step, losses = optimizer(case.optimizer, mine), []
    for x, y in batches:
        losses.append(worker.step(x, y, y.numel()))
        step.step()
        step.zero_grad()
    own, now = set(worker.parameters()), worker.now
    pairs = zip(model.parameters(), alone.parameters(), strict=True)
    gaps = [float((a - b).abs().max()) for a, b in pairs if a in own]
    ends = [gap(a, b) for a, b in zip(losses, want, strict=True) if a is not None]
    return {
        "gap": max(gaps, default=0.0),
        "loss_gap": max(ends, default=0.0),
        "messages": dict(worker.links.messages),
        "bytes": dict(worker.links.bytes),
        "kept": worker.most_kept,
        "left": (now.inputs, now.gradients, now.kept, now.later, worker.jobs),
    }


def gap(a: float, b: float) -> float:
    return abs(a - b)


def counted(case: Case) -> dict:
    """What this rank should have sent, by the formula, in all steps: messages and bytes."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    blocks = blocks_of(mlp(case.widths))
    stages = 1 + max(line.stage for line in case.lists[-1])
    short, longer = divmod(len(blocks), stages)
    edges, end = [], 0
    for s in range(stages - 1):  # the width between a stage and the next
        end += short + (s < longer)
        shape = nn.Sequential(*blocks[:end])(torch.zeros(1, case.widths[0]).double()).shape
        edges.append(shape[1])
    forward = [edges[s] for s in range(rank, stages - 1, ranks)]
    backward = [edges[s - 1] for s in range(rank, stages, ranks) if s > 0]
    found: dict = {"messages": {}, "bytes": {}}
    for kind, widths in (("SendActivation", forward), ("SendGradient", backward)):
        if widths and ranks > 1:
            found["messages"][kind] = STEPS * case.micro_batches * len(widths)
            found["bytes"][kind] = STEPS * case.samples * sum(widths) * 8
    return found
