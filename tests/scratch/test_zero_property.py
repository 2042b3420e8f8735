"""Drawn cases: whatever the shapes, ranks, accumulation, stage and optimizer, serial's weights.

`SCRATCH_SEED=7 pytest tests/scratch/test_zero_property.py` draws other cases; a failure names the
seed and the case.
"""

import os
import random
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from dtlib.ranks.launcher import launch
from dtlib.scratch import zero
from dtlib.scratch.data_parallel import OverlappedDataParallel
from tests.scratch_cases import ROUNDING, ZERO, batch, cut, flat, gap, mlp, optimizer, serial

SEED = int(os.environ.get("SCRATCH_SEED", "20261128"))
STEPS = 3


@dataclass(frozen=True)
class Case:
    stage: int  # 0 is overlapped data parallel
    optimizer: str
    accumulation: int
    micro_batch: int
    widths: list[int]
    cap_bytes: int
    clip: float | None
    frozen: int | None  # this block is not trained


def drawn(ranks: int, count: int) -> list[Case]:
    """Every stage with both optimizers, and everything else at random."""
    draw = random.Random(f"{SEED} {ranks}")
    cases = []
    for number in range(count):
        # From 3 on, since a norm of two numbers is ±1 whatever they are: gradients that are 0 but
        # for rounding, which AdamW scales up to the size of the others.
        widths = [*(draw.randint(3, 9) for _ in range(draw.randint(1, 4))), draw.randint(1, 9)]
        cases.append(
            Case(
                stage=number % 4,
                optimizer=("sgd", "adamw")[number // 4 % 2],
                accumulation=draw.randint(1, 4),
                micro_batch=draw.randint(1, 3),
                widths=widths,
                cap_bytes=draw.choice([1, 64, 300, 10**6]),
                clip=draw.choice([None, 0.2, 100.0]),
                frozen=draw.choice([None, None, draw.randrange(len(widths) - 1)]),
            )
        )
    return cases


def prepared(case: Case, seed: int) -> torch.nn.Sequential:
    model = mlp(case.widths, seed)
    if case.frozen is not None and len(model) > 2:
        model[case.frozen].requires_grad_(False)
    return model


def batches(case: Case) -> list:
    samples = case.micro_batch * case.accumulation * dist.get_world_size()
    return [batch(case.widths[0], case.widths[-1], samples, step) for step in range(STEPS)]


def shards(case: Case) -> torch.nn.Module:
    """Train under ZeRO, from a start of its own on each rank."""
    model = prepared(case, seed=dist.get_rank())
    rules = {"sgd": zero.SGD(0.1, 0.9, 0.1), "adamw": zero.AdamW(0.01, weight_decay=0.1)}
    options = {"cap_bytes": case.cap_bytes} if case.stage < 3 else {}
    sharded = ZERO[case.stage](model, rules[case.optimizer], **options)
    for whole in batches(case):
        for x, y in cut(whole, dist.get_rank(), dist.get_world_size(), case.accumulation):
            sharded.backward(F.mse_loss(sharded(x), y) / case.accumulation)
        sharded.step(case.clip)
    with sharded.whole():
        return prepared_copy(model, case)


def prepared_copy(model: torch.nn.Module, case: Case) -> torch.nn.Module:
    copy = prepared(case, seed=0)
    copy.load_state_dict(model.state_dict())
    return copy


def replicas(case: Case) -> torch.nn.Module:
    """Train under overlapped data parallel."""
    model = prepared(case, seed=dist.get_rank())
    parallel, steps = (
        OverlappedDataParallel(model, case.cap_bytes),
        optimizer(case.optimizer, model),
    )
    for whole in batches(case):
        *first, last = cut(whole, dist.get_rank(), dist.get_world_size(), case.accumulation)
        with parallel.no_sync():
            for x, y in first:
                (F.mse_loss(model(x), y) / case.accumulation).backward()
        (F.mse_loss(model(last[0]), last[1]) / case.accumulation).backward()
        parallel.wait()
        if case.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        steps.step()
        steps.zero_grad()
    return model


def gaps(cases: list[Case]) -> list[tuple[float, bytes]]:
    found = []
    for case in cases:
        model = shards(case) if case.stage else replicas(case)
        alone = prepared(case, seed=0)
        serial(alone, case.optimizer, batches(case), case.clip)
        found.append((gap(model, alone), flat(model).numpy().tobytes()))
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_scratch_equals_one_process(ranks):
    cases = drawn(ranks, 24)
    by_rank = launch(gaps, cases, ranks=ranks, timeout=30, show=False)
    for case, *found in zip(cases, *by_rank, strict=True):
        assert max(gap for gap, _ in found) < ROUNDING, f"seed {SEED}, {ranks} ranks: {case}"
        assert len({bits for _, bits in found}) == 1, f"seed {SEED}, {ranks} ranks: {case}"
