"""Pipelines on real ranks: whatever the schedule and the shapes, the weights of one process.

`SCRATCH_SEED=7 pytest tests/scratch/test_pipeline.py` draws other cases; a failure names the seed
and the case.
"""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.ranks.launcher import launch
from dtlib.ranks.outcome import RankFailed
from dtlib.scratch import pipeline as p
from dtlib.scratch.blocks import blocks_of
from dtlib.scratch.pipeline.links import Links
from dtlib.scratch.pipeline.split import defer_weights
from tests.scratch.pipeline_cases import SCHEDULES, counted, drawn, squares, train
from tests.scratch_cases import ROUNDING, mlp, raised

SEED = os.environ.get("SCRATCH_SEED", "20261130")
RANKS = (1, 2, 3, 4)
GPT_STEPS, KEY_BIAS = 3, "c_attn.bias"


def all_cases(cases):
    found = [(train(case), counted(case)) for case in cases]
    return found, {name: train_gpt(name) for name in SCHEDULES}


@pytest.fixture(scope="module", params=RANKS)
def runs(request):
    ranks = request.param
    cases = drawn(ranks, SEED)
    return ranks, cases, launch(all_cases, cases, ranks=ranks, timeout=30, show=False)


def test_drawn_cases_equal_one_process_and_send_what_the_formulas_say(runs):
    ranks, cases, by_rank = runs
    for number, case in enumerate(cases):
        for rank, (found, _) in enumerate(by_rank):
            got, want = found[number]
            said = f"seed {SEED}, rank {rank} of {ranks}: {case}"
            # float64, SGD with momentum (lr 0.1) or AdamW (lr 0.01, eps 1e-8), 3 steps
            assert got["gap"] < ROUNDING and got["loss_gap"] < ROUNDING, said
            assert {kind: got[kind] for kind in want} == want, said
            assert got["kept"] == p.kept_at_most(case.lists[rank]), said
            assert not any(got["left"]), said


def text_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


def train_gpt(name, pipeline_of=p.Pipeline):
    """A tied GPT under AdamW (lr 0.01, eps 1e-8): the largest gaps of weights and gradients.

    The true gradient of a key's bias is 0, since it adds the same to all scores of a query. What is
    there is rounding, which AdamW scales up, so that bias is compared by its gradient.
    """
    ranks = dist.get_world_size()
    config = GPTConfig(vocab_size=11, context=8, layers=2 * ranks - 2 or 1, heads=2, width=8)
    model, alone = GPT(config).double(), GPT(config).double()
    lists = p.for_all_ranks(SCHEDULES[name], ranks, ranks)
    worker = pipeline_of(blocks_of(model), lists, text_loss)
    own = {n: q for n, q in model.named_parameters() if q in set(worker.parameters())}
    other = dict(alone.named_parameters())
    steps = [
        torch.optim.AdamW(params, lr=0.01, eps=1e-8) for params in (own.values(), other.values())
    ]
    weights = gradients = 0.0
    for step in range(GPT_STEPS):
        tokens = torch.randint(0, 11, (2 * ranks, 9), generator=torch.Generator().manual_seed(step))
        x, y = tokens[:, :-1], tokens[:, 1:]
        worker.step(x, y, y.numel())
        F.cross_entropy(alone(x).flatten(0, 1), y.flatten()).backward()
        gradients = max(gradients, *(far(q.grad, other[n].grad) for n, q in own.items()))
        with torch.no_grad():  # from here on both have the same key biases
            for n, q in own.items():
                if KEY_BIAS in n:
                    q.grad[8:16] = other[n].grad[8:16]
        for one in steps:
            one.step()
            one.zero_grad()
    weights = max(far(q, other[n]) for n, q in own.items())
    return weights, gradients, worker.links.messages["tied"], worker.links.bytes["tied"]


def far(a, b):
    return float((a - b).abs().max())


def test_a_tied_gpt_equals_one_process(runs):
    ranks, _, by_rank = runs
    for rank, (_, found) in enumerate(by_rank):
        for name, (weights, gradients, messages, sent) in found.items():
            assert weights < ROUNDING and gradients < ROUNDING, (ranks, rank, name)
            # The gradient of the embedding, 11 · 8 numbers: one part there, one sum back.
            tied = GPT_STEPS if ranks > 1 and rank in (0, ranks - 1) else 0
            assert (messages, sent) == (tied, tied * 11 * 8 * 8)


# --- What fails, and how soon -------------------------------------------------------------------


class Forgets(Links):
    """Does not send one gradient."""

    def send(self, line, x):
        if line != p.SendGradient(1, 1):
            super().send(line, x)


def odd_ones():
    rank = dist.get_rank()
    blocks = blocks_of(mlp([4, 4, 4]))
    lists = p.for_all_ranks(p.one_forward_one_backward, 2, 4)
    found = {
        "batch": raised(lambda: p.Pipeline(blocks, lists, squares).step(torch.ones(3, 4), None, 1)),
        "ranks": raised(lambda: p.Pipeline(blocks, lists[:1], squares)),
        "stages": raised(lambda: p.Pipeline(blocks[:1], lists, squares)),
        "order": raised(lambda: p.Pipeline(blocks, [lists[0][::-1], lists[1]], squares)),
        "alive": outputs_alive(),
        "autocast": raised(lambda: under_autocast(p.Pipeline(blocks, lists, squares))),
    }
    worker = p.Pipeline(blocks, lists, squares, timeout=1)
    worker.links.__class__ = Forgets
    x = torch.ones(4, 4, dtype=torch.float64)
    if rank == 0:
        found["forgets"] = raised(lambda: worker.step(x, x, 16))
    else:
        raised(lambda: worker.step(x, x, 16))
    return found


def under_autocast(worker):
    x = torch.ones(4, 4, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        worker.step(x, x, 16)


def outputs_alive(pipeline_of=p.Pipeline):
    """The most outputs of rank 0's stage in memory after any line of 1F1B, and how many there were.

    The stage's last block is linear, so autograd does not need its output.
    """
    made, most = [], 0

    class Watched(pipeline_of):
        def carry_out(self, line):
            nonlocal most
            super().carry_out(line)
            most = max(most, sum(not ref.expired() for ref in made))

    blocks = blocks_of(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).double())
    lists = p.for_all_ranks(p.one_forward_one_backward, 2, 8)
    worker = Watched(blocks, lists, squares)
    for stage in worker.stages.values():
        stage.register_forward_hook(
            lambda _, __, y: made.append(StorageWeakRef(y.untyped_storage()))
        )
    x = torch.ones(8, 4, dtype=torch.float64)
    worker.step(x, x, 32)
    return most, len(made)


def killed():
    class Killed(p.Pipeline):
        def carry_out(self, line):
            if line == p.Forward(2, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            super().carry_out(line)

    x = torch.ones(4, 4, dtype=torch.float64)
    lists = p.for_all_ranks(p.one_forward_one_backward, 2, 4)
    Killed(blocks_of(mlp([4, 4, 4])), lists, squares).step(x, x, 16)


def test_a_linear_layer_that_is_split_refuses_autocast():
    layer = torch.nn.Linear(4, 4)
    defer_weights(layer, [])
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(BadInput, match="one dtype"):
        layer(torch.ones(2, 4))


def test_a_rank_that_dies_is_named_and_not_the_one_that_waits_for_it():
    with pytest.raises(RankFailed, match="Rank 1 was killed by SIGKILL"):
        launch(killed, ranks=2, timeout=20, show=False)


def test_what_cannot_run_is_refused_and_what_does_not_come_is_named():
    zero, one = launch(odd_ones, ranks=2, timeout=20, show=False)
    for found in (zero, one):
        assert "a batch of 3 samples cannot be cut into 4 micro-batches" in found["batch"]
        assert "the schedule is for 1 rank, but there are 2" in found["ranks"]
        assert "1 block cannot be cut into 2 stages" in found["stages"]
        assert "does not run under torch.autocast" in found["autocast"]
        assert "BadInput: rank 0, line 2, Backward(micro_batch=3, stage=0)" in found["order"]
    assert (
        "DtlibError: rank 0, ReceiveGradient(micro_batch=1, stage=0): SendGradient(micro_batch=1, "
        "stage=1) of rank 1 did not come (the limit is 1 s)" in zero["forgets"]
    )
    # Rank 0 holds the outputs that have not surely arrived: the warm-up's, and one in turn.
    assert zero["alive"] == (2, 8)
