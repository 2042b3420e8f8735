"""Experts on several ranks: the serial mixture's gradients and weights, load, bytes, refusals.

`SCRATCH_SEED=7 pytest tests/scratch/test_experts.py` draws other cases; a failure names the seed
and the case.
"""

import os

import pytest
import torch
import torch.distributed as dist
from torch import nn

from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.models import gpt
from dtlib.ranks.launcher import launch
from dtlib.scratch import experts as ex
from dtlib.sim import experts as sim
from tests import expert_cases as cases
from tests.scratch_cases import ROUNDING, optimizer, raised

SEED = int(os.environ.get("SCRATCH_SEED", "20261130"))
RANKS = (2, 3, 4)
COUNT = 32
STEPS = 10
EXPERTS, SAMPLES = 12, 12  # 2, 3 and 4 ranks divide both
RULES = [("sgd", 1), ("sgd", 2), ("adamw", 1), ("adamw", 2)]
BIAS = "attn.c_attn.bias"


def text(step, vocabulary, positions):
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, vocabulary, (SAMPLES, positions + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:].masked_fill(torch.arange(positions) < step % 3, -100)


def train(rule, k):
    """Ten steps beside one process; the largest gap of losses, gradients and weights, and drops.

    `optimizer`: SGD with lr 0.1 and momentum 0.9; AdamW with lr 0.01 and epsilon 1e-8. The bias of
    the keys has a true gradient of 0, see `test_context_parallel`: with AdamW it is left out.
    """
    n = dist.get_world_size()
    case = cases.Case("", False, SAMPLES // n, 5, 8, EXPERTS // n, k, "1.1", k)
    serial = cases.serial_gpt(case)
    parallel = cases.parallel_gpt(case, serial)
    ours, theirs = optimizer(rule, parallel), optimizer(rule, serial)
    gaps, dropped = [], 0
    for step in range(STEPS):
        ours.zero_grad(), theirs.zero_grad()
        got, want = cases.losses(case, serial, parallel, *text(step, case.vocabulary, 5))
        gaps += [abs(got - want), *cases.gradients_apart(parallel, serial, case)]
        dropped += sum(block.mlp.account.dropped for block in parallel.h)
        ours.step(), theirs.step()
    names = [name for name, _ in parallel.named_parameters()]
    for name, (p, q) in zip(names, cases.partners(parallel, serial, case), strict=True):
        gap = (p - q).abs().detach()
        if rule == "adamw" and name.endswith(BIAS):
            gap[case.width : 2 * case.width] = 0
        gaps.append(float(gap.max()))
    return max(gaps), dropped


SIZES = [(1, 1.0), (2, 1.1), (3, 0.5)]  # k and capacity factor
BATCH, POSITIONS, WIDTH = 2, 9, 4


def sent(k, factor):
    """All-to-alls of a layer in fp32, its load and how many choices it drops."""
    case = cases.Case("", False, 1, 1, WIDTH, EXPERTS // dist.get_world_size(), k, str(factor), 7)
    torch.manual_seed(0)
    mixture = cases.parallel_mixture(case, cases.serial_mixture(case))
    generator = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(BATCH, POSITIONS, WIDTH, generator=generator, requires_grad=True)
    with CollectiveLog() as log:
        mixture(x).sum().backward()
    tallies = {name: (t.calls, t.payload, t.wire) for name, t in log.tallies.items()}
    return tallies, mixture.account.load.tolist(), mixture.account.dropped


def refusals():
    def mixture(experts, scores, k=1, factor=1.0):
        parts = [nn.Linear(4, 4) for _ in range(experts)]
        return ex.Mixture(nn.Linear(4, scores, bias=False), parts, k, factor)

    return {
        "experts": raised(lambda: mixture(3, 3)),
        "scores": raised(lambda: mixture(4, 6)),
        "many": raised(lambda: mixture(4, 4, k=5)),
        "none": raised(lambda: mixture(4, 4, k=0)),
        "factor": raised(lambda: mixture(4, 4, factor=0.0)),
    }


def corners():
    """bf16 tokens come back in bf16, with probabilities in fp32; a frozen expert stays frozen."""
    experts = [gpt.MLP(gpt.GPTConfig(3, 4, 1, 1, 4)).bfloat16() for _ in range(2)]
    experts[dist.get_rank()].c_fc.weight.requires_grad_(False)
    mixture = ex.Mixture(nn.Linear(4, 2, bias=False).bfloat16(), experts, 2)
    y = mixture(torch.randn(1, 6, 4).bfloat16())
    routing = mixture.router(torch.randn(5, 4).bfloat16())
    frozen = [name for name, p in mixture.named_parameters() if not p.requires_grad]
    return y.dtype, routing.probabilities.dtype, frozen


def everything(drawn):
    found = {
        "apart": [cases.apart(case) for case in drawn],
        "trained": {pair: train(*pair) for pair in RULES},
        "sent": {size: sent(*size) for size in SIZES},
    }
    if dist.get_world_size() == 2:
        found |= {"refused": refusals(), "corners": corners()}
    return found


@pytest.fixture(scope="module")
def found():
    """What each rank found, by the number of ranks: all cases of a number in one launch."""
    return {
        n: launch(everything, cases.drawn(n, COUNT, SEED), ranks=n, timeout=30, show=False)
        for n in RANKS
    }


@pytest.mark.parametrize("ranks", RANKS)
def test_everything_equals_one_process(found, ranks):
    drawn = cases.drawn(ranks, COUNT, SEED)
    for case, *apart in zip(drawn, *(rank["apart"] for rank in found[ranks]), strict=True):
        assert max(apart) < ROUNDING, f"seed {SEED}, {ranks} ranks: {case}"


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pair", RULES)
def test_ten_steps_of_a_gpt_equal_one_process(found, ranks, pair):
    gaps, dropped = zip(*(rank["trained"][pair] for rank in found[ranks]), strict=True)
    assert max(gaps) < ROUNDING
    assert 0 < sum(dropped) < STEPS * 2 * pair[1] * SAMPLES * 5  # some, and not all


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("size", SIZES)
def test_bytes_load_and_drops_are_the_formulas(found, ranks, size):
    tokens = BATCH * POSITIONS
    (row,) = sim.traffic(tokens, WIDTH, EXPERTS, *size, ranks, 4)
    room = sim.capacity(tokens, EXPERTS, *size)
    for rank in found[ranks]:
        tallies, load, dropped = rank["sent"][size]
        assert tallies == {"all_to_all": (4, row["payload"], pytest.approx(row["wire"]))}
        assert sum(load) == size[0] * tokens
        assert sum(lost for _, lost, _ in sim.served(load, room)) == dropped


def test_capacity_is_the_share_rounded_up():
    cases = [(8, 4, 1, 1, 2), (8, 4, 2, 1.25, 5), (10, 10, 10, 1.1, 10), (100, 10, 1, 1.1, 11),
             (7, 4, 1, 1, 2), (5, 8, 1, 0.1, 1), (6, 2, 1, 9, 6)]  # fmt: skip
    for tokens, experts, k, factor, want in cases:
        assert sim.capacity(tokens, experts, k, factor) == want
    assert sim.served([5, 0, 2], 2) == [(2, 3, 0), (0, 0, 2), (2, 0, 0)]


def test_the_balance_loss_is_1_when_even_and_all_experts_when_one_has_all():
    even = ex.Routing(torch.full((8, 4), 0.25), torch.arange(8).view(8, 1) % 4, torch.ones(8, 1))
    one = ex.Routing(torch.eye(4)[[2] * 8], torch.full((8, 1), 2), torch.ones(8, 1))
    assert ex.balance_loss(even).item() == pytest.approx(1)
    assert ex.balance_loss(one).item() == pytest.approx(4)


def test_refusals(found):
    for rank in found[2]:
        refused = rank["refused"]
        assert all(said.startswith("BadInput: ") for said in refused.values()), refused
        assert "3 experts must be a multiple of the 2 ranks" in refused["experts"]
        assert "as many as the router's scores, 6." in refused["scores"]
        assert "a token cannot go to 5 of 4 experts: take a k from 1 to 4." in refused["many"]
        assert "a token cannot go to 0 of 4 experts" in refused["none"]
        assert "with a capacity factor of 0 no expert takes a token" in refused["factor"]


def test_corners(found):
    for rank in found[2]:
        assert rank["corners"] == (torch.bfloat16, torch.float32, ["experts.0.c_fc.weight"])
