"""ZeRO by hand: bytes held and sent to the byte, the real things' weights, and its refusals."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from dtlib.learn.wire import WireLog
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.ranks.launcher import launch
from dtlib.scratch import zero
from dtlib.scratch.zero.schedule import schedule
from dtlib.scratch.zero.step import Zero
from dtlib.sim import memory
from tests.scratch_cases import (
    ZERO,
    batch,
    cut,
    elements_sent,
    flat,
    gap,
    mlp,
    raised,
    ring_wire_elements,
)

WIDTHS, SAMPLES, CAP = [5, 7, 4, 3], 24, 300
RANKS, STAGES, KS = 3, (1, 2, 3), (1, 2)


def adamw():
    return zero.AdamW(0.01, weight_decay=0.1)


def sizes(held):
    return {kind: sum(tensor.nbytes for tensor in tensors) for kind, tensors in held.items()}


def one_step(stage, k, dtype, even=False):
    """Held when all gradients are there, sent in a step, and how much the wire log saw leave.

    An even model has 9 and 12 elements in its blocks, 21 in all: 3 ranks divide it without padding.
    """
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3)) if even else mlp(WIDTHS)
    options = {"cap_bytes": 10**6 if even else CAP} if stage < 3 else {}
    sharded: Zero = ZERO[stage](model.to(dtype), adamw(), **options)
    with WireLog() as log:
        for x, y in cut(batch(2 if even else 5, 3, SAMPLES, 0), dist.get_rank(), RANKS, k):
            sharded.backward(F.mse_loss(sharded(x.to(dtype)), y.to(dtype)) / k)
        held = sizes(sharded.held())
        sharded.step()
    psi = [bucket.psi for bucket in sharded.buckets]
    return held, dict(sharded.wire.sent), log.bytes_sent, sizes(sharded.held()), psi


def all_steps():
    return {
        (stage, k, dtype, even): one_step(stage, k, dtype, even)
        for stage in STAGES
        for k in KS
        for dtype in (torch.float32, torch.bfloat16)
        for even in (False, True)
    }


@pytest.fixture(scope="module")
def steps():
    return launch(all_steps, ranks=RANKS, timeout=20, show=False)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_bytes_held_are_the_papers_to_the_byte(steps, stage, dtype):
    for rank in steps:
        for k in KS:
            held, _, _, after, psi = rank[stage, k, dtype, False]
            shard = sum(zero.shard_size(p, RANKS) for p in psi)
            low = dtype == torch.bfloat16  # 2 + 2 + 12 bytes an element, else 4 + 4 + 8
            assert held == {
                "parameters": (2 if low else 4) * (shard if stage == 3 else RANKS * shard),
                "gradients": (2 if low else 4) * (sum(psi) if stage == 1 else shard),
                "optimizer": 8 * shard,
                "fp32_copy": 4 * shard if low else 0,
            }
            assert after == {**held, "gradients": 0}
            assert RANKS * shard - sum(psi) <= len(psi) * (RANKS - 1)  # the padding


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("k", KS)
def test_bytes_sent_are_counted_as_they_leave_and_are_the_formulas(steps, stage, k):
    for dtype in (torch.float32, torch.bfloat16):
        for rank, results in enumerate(steps):
            _, sent, on_the_wire, _, psi = results[stage, k, dtype, False]
            assert sum(sent.values()) == on_the_wire
            once = dtype.itemsize * (RANKS - 1) * sum(zero.shard_size(p, RANKS) for p in psi)
            gathers = {1: 1, 2: 1, 3: 2 * k}[stage]
            reductions = {1: 1, 2: k, 3: k}[stage]
            assert sent == {
                "all_gather": gathers * once,
                "reduce_scatter": reductions * once,
                "all_reduce": 4 * ring_wire_elements(1, RANKS, rank),  # the norm
            }
    if stage == 3:
        owned = dict(enumerate(psi))
        steps_of = schedule([[i] for i in owned], k)
        assert dtype.itemsize * elements_sent(steps_of, owned, RANKS) == sum(sent.values()) - 4 * (
            ring_wire_elements(1, RANKS, rank)
        )


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("k", KS)
def test_without_padding_they_are_what_the_course_predicts(steps, stage, k):
    for dtype, precision in ((torch.float32, "fp32"), (torch.bfloat16, "mixed")):
        name = f"zero{stage}"
        states = memory.model_states(21, RANKS, name, precision, kept="paper")
        traffic = memory.communication(21, RANKS, name, k, precision, kept="paper")
        for results in steps:
            held, sent, *_ = results[stage, k, dtype, True]
            assert held == states._asdict()
            for kind in ("all_gather", "reduce_scatter"):
                assert sent[kind] == sum(row.wire for row in traffic if row.collective == kind)


def text(step, rank, ranks):
    tokens = torch.randint(0, 11, (2 * ranks, 9), generator=torch.Generator().manual_seed(step))
    return tokens[2 * rank : 2 * rank + 2]


def train_gpt(prepare, dtype=torch.float64):
    """Train a tied GPT for three steps under whatever `prepare` makes of it."""
    model = GPT(GPTConfig(vocab_size=11, context=8, layers=2, heads=2, width=8)).to(dtype)
    call, backward, step = prepare(model)
    losses = []
    for number in range(3):
        tokens = text(number, dist.get_rank(), dist.get_world_size())
        loss = F.cross_entropy(call(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        losses.append(loss.item())
        backward(loss)
        step()
    return model, losses


def by_hand(stage):
    def prepare(model):
        sharded = ZERO[stage](model, adamw())
        prepare.whole = sharded.whole
        return sharded, sharded.backward, lambda: sharded.step(0.5)

    return prepare


def by_torch(model):
    """DDP, and AdamW sharded by torch's own ZeroRedundancyOptimizer."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, lr=0.01, betas=(0.9, 0.95))

    def step():
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()

    return DistributedDataParallel(model), torch.Tensor.backward, step


def against_torch():
    reference, want = train_gpt(by_torch)
    found = {}
    for stage in STAGES:
        prepare = by_hand(stage)
        model, losses = train_gpt(prepare)
        with prepare.whole():
            difference = gap(model, reference)
            found[stage] = difference, losses, want, flat(model), model.wte.weight.clone()
    return found


def test_a_tied_gpt_equals_torchs_zero_redundancy_optimizer():
    for found in launch(against_torch, ranks=2, timeout=30, show=False):
        for stage in STAGES:
            difference, losses, want, weights, _ = found[stage]
            # float64; AdamW divides gradients of about 1e-3 by their own size: 1e-16 / 1e-3 each.
            assert difference < 1e-11
            assert losses == pytest.approx(want, abs=1e-12)
            # The same sums in the same order at every stage, whose buckets are cut otherwise.
            assert stage == 3 or torch.equal(weights, found[1][3])


def mixed(stage):
    """bf16 weights with an fp32 copy: a step of 0.001 is lost in bf16 near 1, and must add up."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False)).bfloat16()
    nn.init.ones_(model[0].weight)
    sharded = ZERO[stage](model, zero.SGD(lr=0.001, momentum=0.0))
    for _ in range(16):
        sharded.backward(-sharded(torch.ones(1, 1, dtype=torch.bfloat16)).sum())
        sharded.step()
    with sharded.whole():
        return model[0].weight.item(), sharded.shards[0].master.tolist()


def corners():
    found = {"mixed": [mixed(stage) for stage in STAGES]}
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    for stage in (1, 2):
        sharded = ZERO[stage](copy.deepcopy(model), zero.SGD(1.0), cap_bytes=1)
        first = sharded.model[0]
        sharded.backward((first if dist.get_rank() == 0 else sharded.model)(torch.ones(1, 2)).sum())
        found["unused", stage] = sharded.step()
    for stage in (2, 3):
        sharded = ZERO[stage](copy.deepcopy(model), zero.SGD(1.0))
        found["forgot", stage] = raised(sharded.step)
    sharded = zero.ZeroStage3(copy.deepcopy(model), zero.SGD(1.0))
    x = torch.ones(1, 2)
    with torch.no_grad():
        out = sharded(x)
    found["evaluation"] = torch.equal(out, model(x)), sharded.passes
    found["freed"] = [b.flat.untyped_storage().nbytes() for b in sharded.buckets]
    sparse = zero.ZeroStage1(nn.Embedding(3, 2, sparse=True), zero.SGD(1.0))
    sparse.backward(sparse(torch.tensor([1])).sum())
    found["sparse"] = raised(sparse.step)
    both = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).double())
    found["dtypes"] = raised(lambda: zero.ZeroStage3(nn.Sequential(both), zero.SGD(1.0)))
    return found


@pytest.fixture(scope="module")
def odd():
    return launch(corners, ranks=2, timeout=20, show=False)


def test_the_fp32_copy_lives_on_between_steps(odd):
    for rank, found in enumerate(odd):
        for weight, master in found["mixed"]:
            assert weight == 1.015625  # 1.016 in bf16, whose numbers are 1/128 apart there
            # 16 additions of 0.001 near 1 in fp32; rank 1's shard is padding, and stays 0.
            assert master == ([pytest.approx(1.016, abs=16 * 6e-8)] if rank == 0 else [0.0])


def test_a_parameter_that_only_one_rank_used_counts_as_zero_on_the_other(odd):
    for found in odd:
        assert found["unused", 1] == found["unused", 2] == odd[0]["unused", 1]
        assert found["unused", 1] > 0


def test_refusals_and_what_stage_3_frees(odd):
    for rank, found in enumerate(odd):
        for stage in (2, 3):
            assert (
                f"rank {rank}: step() found no gradient: call zero.back" in found["forgot", stage]
            )
        assert found["evaluation"] == (True, [])
        assert found["freed"] == [0, 0]
        assert "of shape (3, 2) has a sparse gradient" in found["sparse"]
        assert "a flat buffer has one dtype" in found["dtypes"]


def clipped():
    """Rank 0's shard of the gradient is (3, 0), rank 1's (0, 4)."""
    shard = torch.tensor([[3.0, 0.0], [0.0, 4.0]])[dist.get_rank()]
    norm = zero.global_norm([shard[:1], shard[1:]], zero.Wire())
    return norm.item(), (shard * zero.clip_factor(norm, 1.0)).tolist()


def test_the_norm_is_that_of_the_whole_gradient():
    (norm, first), (other, second) = launch(clipped, ranks=2, timeout=20, show=False)
    assert norm == other == 5.0
    assert first + second == pytest.approx([0.6, 0, 0, 0.8], abs=1e-6)  # torch's 1e-6 in the factor
