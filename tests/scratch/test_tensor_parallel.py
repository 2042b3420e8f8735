"""Tensor parallelism by hand: serial's gradients and weights, bytes and messages, its refusals.

`SCRATCH_SEED=7 pytest tests/scratch/test_tensor_parallel.py` draws other cases; a failure names the
seed and the case.
"""

import os

import pytest
import torch
import torch.distributed as dist
from torch import nn

from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.measure.ledger.saved import SavedTensors
from dtlib.models import gpt
from dtlib.ranks.launcher import launch
from dtlib.scratch import tensor_parallel as tp
from dtlib.sim import tensor_parallel as sim
from tests import tensor_parallel_cases as cases
from tests.scratch_cases import ROUNDING, optimizer, raised

SEED = int(os.environ.get("SCRATCH_SEED", "20261130"))
RANKS = (2, 3, 4)
# 12 heads, which 2, 3 and 4 ranks divide; 13 words, which none of them does.
CONFIG = gpt.GPTConfig(vocab_size=13, context=16, layers=2, heads=12, width=48)
BATCH, POSITIONS, STEPS, CLIP, DROPOUT = 2, 12, 10, 1.7, 0.1
RULES = "sgd", "adamw"
KEY_BIAS = "attn.key.bias"


def batch(step):
    generator = torch.Generator().manual_seed(step)
    text = torch.randint(0, CONFIG.vocab_size, (BATCH, POSITIONS + 1), generator=generator)
    return text[:, :-1], text[:, 1:]


def whole_model():
    return cases.with_dropout(gpt.GPT(CONFIG, seed=1).double(), DROPOUT)


def train(name, edges):
    """Ten steps beside one process; the largest differences of losses, norms and weights.

    `optimizer`: SGD with lr 0.1 and momentum 0.9; AdamW with lr 0.01 and epsilon 1e-8. The bias of
    the keys adds the same to all scores of a query, so that its true gradient is 0. AdamW would
    divide its rounding errors by their own size: of that bias the gradients are compared alone.
    """
    serial = whole_model()
    parallel = tp.TensorParallelGPT(serial, edges, DROPOUT, seed=5).double()
    ours, theirs = optimizer(name, parallel), optimizer(name, serial)
    losses, norms, key_biases = [], [], []
    for step in range(STEPS):
        ours.zero_grad(), theirs.zero_grad()
        got, want = (model(*batch(step)) / (BATCH * POSITIONS) for model in (parallel, serial))
        got.backward(), want.backward()
        tp.sum_partial(parallel)
        norm = nn.utils.clip_grad_norm_(serial.parameters(), CLIP)
        losses.append(abs(got.item() - want.item()))
        norms.append((tp.clip_global_norm(parallel, CLIP).item(), norm.item()))
        named = parallel.named_parameters()
        key_biases += [float(p.grad.abs().max()) for name, p in named if name.endswith(KEY_BIAS)]
        ours.step(), theirs.step()
    right = dict(tp.TensorParallelGPT(serial, edges).named_parameters())
    far = {name: float((p - right[name]).abs().max()) for name, p in parallel.named_parameters()}
    left_out = KEY_BIAS if name == "adamw" else "none"
    weights = max(gap for name, gap in far.items() if not name.endswith(left_out))
    return max(losses), norms, weights, max(key_biases)


def count(edges):
    """Collectives of a step, bytes held of each kind, and bytes that a block keeps; in fp32."""
    parallel = tp.TensorParallelGPT(gpt.GPT(CONFIG), edges)
    with CollectiveLog() as log:
        parallel(*batch(0)).backward()
        tp.sum_partial(parallel)
    sent = {name: (t.calls, t.payload, t.wire) for name, t in log.tallies.items()}
    x = cases.mine(
        cases.Case("", edges is tp.SEQUENCE, BATCH, POSITIONS, 1, 1, 1, 1, 0),
        torch.randn(BATCH, POSITIONS, CONFIG.width),
    )
    weights = {p.untyped_storage().data_ptr() for p in parallel.parameters()}
    saved = SavedTensors(lambda storage: storage.data_ptr() in weights)
    with saved:
        y = parallel.h[0](x.clone().requires_grad_())
    cut = sum(p.numel() for p in parallel.parameters() if isinstance(p, tp.Cut))
    del y
    return sent, (cut, sum(p.numel() for p in parallel.parameters()) - cut), saved.most


def refusals():
    config = gpt.GPTConfig(vocab_size=9, context=8, layers=1, heads=4, width=8)
    model = tp.TensorParallelGPT(gpt.GPT(config), tp.SEQUENCE)
    tokens, beyond = torch.zeros(1, 6, dtype=torch.long), torch.full((1, 6), 9)
    odd, dropping = (
        gpt.GPT(gpt.GPTConfig(**{**vars(config), **change}))
        for change in ({"heads": 1}, {"dropout": 0.2})
    )
    return {
        "sequence": raised(lambda: model(tokens[:, :5], tokens[:, :5])),
        "context": raised(lambda: model(torch.zeros(1, 10, dtype=torch.long), tokens)),
        "token": raised(lambda: model(beyond, tokens)),
        "label": raised(lambda: model(tokens, beyond)),
        "negative token": raised(lambda: model(tokens - 1, tokens)),
        "heads": raised(lambda: tp.TensorParallelGPT(odd)),
        "dropout": raised(lambda: tp.TensorParallelGPT(dropping)),
        "narrow": raised(lambda: tp.ColumnLinear(nn.Linear(2, 1))),
    }


def half_precision():
    """The loss of bf16 logits is computed in fp32, and their gradient comes back in bf16."""
    logits = tp.own(torch.arange(6.0).expand(1, 2, 6), -1).bfloat16().clone().requires_grad_()
    loss = tp.vocabulary_cross_entropy(logits, torch.tensor([[0, 5]]), tp.first_of_own(6))
    loss.sum().backward()
    return loss.dtype, logits.grad.dtype, loss.tolist()


def unused():
    """A partial gradient that one rank has not computed counts as 0 there."""
    model = nn.Module()
    model.p = tp.Partial(torch.zeros(2))
    if dist.get_rank() == 1:
        model.p.grad = torch.ones(2)
    with CollectiveLog() as log:
        tp.sum_partial(model)
        tp.sum_partial(nn.Linear(2, 2))  # nothing to add up, nothing to send
    return model.p.grad.tolist(), log.tallies["all_reduce"].calls


def everything(drawn):
    both = {"tensor": tp.TENSOR, "sequence": tp.SEQUENCE}
    found = {
        "apart": cases.apart(drawn),
        "trained": {(name, way): train(name, both[way]) for name in RULES for way in both},
        "counted": {way: count(edges) for way, edges in both.items()},
    }
    if dist.get_world_size() == 2:
        found |= {"refused": refusals(), "half": half_precision(), "unused": unused()}
    return found


@pytest.fixture(scope="module")
def found():
    """What each rank found, by the number of ranks: all cases of a number in one launch."""
    return {
        n: launch(everything, cases.drawn(n, 28, SEED), ranks=n, timeout=30, show=False)
        for n in RANKS
    }


@pytest.mark.parametrize("ranks", RANKS)
def test_every_layer_equals_one_process(found, ranks):
    drawn = cases.drawn(ranks, 28, SEED)
    for case, *apart in zip(drawn, *(rank["apart"] for rank in found[ranks]), strict=True):
        assert max(apart) < ROUNDING, f"seed {SEED}, {ranks} ranks: {case}"


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("way", ["tensor", "sequence"])
@pytest.mark.parametrize("name", RULES)
def test_ten_steps_of_a_gpt_equal_one_process(found, ranks, way, name):
    for rank in found[ranks]:
        losses, norms, weights, key_bias = rank["trained"][name, way]
        assert losses < ROUNDING
        assert weights < ROUNDING
        assert key_bias < 1e-15  # in truth 0: gradients of order 1, added up in float64
        for got, want in norms:
            assert got == pytest.approx(want, rel=1e-12)
        assert max(got for got, _ in norms) > CLIP > min(got for got, _ in norms)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("way", ["tensor", "sequence"])
def test_messages_and_bytes_sent_are_the_formulas(found, ranks, way):
    size = POSITIONS, BATCH, CONFIG.layers, CONFIG.width, CONFIG.context
    rows = sim.traffic(*size, ranks, 4, way == "sequence")
    edges = 4 * CONFIG.layers + 2
    calls = {"all_reduce": edges + 2} if way == "tensor" else {
        "all_gather": edges, "reduce_scatter": edges, "all_reduce": 3}  # fmt: skip
    for rank in found[ranks]:
        sent, *_ = rank["counted"][way]
        assert {name: times for name, (times, *_) in sent.items()} == calls
        for name, (_, payload, wire) in sent.items():
            of_name = [row for row in rows if row["collective"] == name]
            assert payload == sum(row["payload"] for row in of_name)
            assert wire == pytest.approx(sum(row["wire"] for row in of_name))


def test_the_loss_is_predicted_in_fp32_whatever_the_activations_are():
    """As `half` of `test_corners` shows of the kernel: logits in bf16 give a loss in fp32."""
    half, full = sim.loss(6, 3, 2), sim.loss(6, 3, 4)
    assert half == full and [row["payload"] for row in full] == [6 * 4, 12 * 4]
    assert sim.loss(6, 3, 8)[0]["payload"] == 6 * 8


@pytest.mark.parametrize("ranks", RANKS)
def test_held_parameters_are_the_formula(found, ranks):
    size = CONFIG.layers, CONFIG.width, CONFIG.context, CONFIG.vocab_size
    held = [rank["counted"]["tensor"][1] for rank in found[ranks]]
    assert held[0] == sim.parameters(*size, ranks)
    assert all(rank["counted"]["sequence"][1] == held[r] for r, rank in enumerate(found[ranks]))
    # Together the ranks hold each cut element once.
    cut, whole = sim.parameters(*size, 1)
    assert sum(c for c, _ in held) == cut and {w for _, w in held} == {whole}
    assert cut + whole == sum(p.numel() for p in gpt.GPT(CONFIG).parameters())


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("way", ["tensor", "sequence"])
def test_a_block_keeps_what_is_predicted(found, ranks, way):
    size = POSITIONS, BATCH, CONFIG.width, CONFIG.heads, "fp32", ranks
    for rank in found[ranks]:
        assert rank["counted"][way][2] == sim.block_activations(*size, way == "sequence")


def test_refusals(found):
    for rank, of_rank in enumerate(found[2]):
        refused = of_rank["refused"]
        assert f"rank {rank}: 5 positions cannot be divided equally among 2" in refused["sequence"]
        assert "a sequence of 10 tokens exceeds the context of 8" in refused["context"]
        for what in ("token", "label"):
            assert f"rank {rank}: token 9 is not in a vocabulary of 9" in refused[what]
        assert f"rank {rank}: token -1 is not in a vocabulary of 9" in refused["negative token"]
        assert "1 heads must be a multiple of the 2 ranks" in refused["heads"]
        assert "drops 0.2 of its attention's probabilities" in refused["dropout"]
        assert "a dimension of 1 cannot be cut for 2 ranks" in refused["narrow"]


def test_corners(found):
    loss = -torch.arange(6.0).log_softmax(0)[[0, 5]]
    for of_rank in found[2]:
        assert of_rank["half"][:2] == (torch.float32, torch.bfloat16)
        assert of_rank["half"][2][0] == pytest.approx(loss.tolist(), rel=1e-6)
        assert of_rank["unused"] == ([1.0, 1.0], 1)
