"""Context parallelism by hand: serial's gradients and weights, work, bytes, messages, refusals.

`SCRATCH_SEED=7 pytest tests/scratch/test_context_parallel.py` draws other cases; a failure names
the seed and the case.
"""

import os

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.measure.ledger.saved import SavedTensors
from dtlib.models import gpt
from dtlib.ranks.launcher import launch
from dtlib.scratch import context_parallel as cp
from dtlib.scratch.gradients import sum_gradients
from dtlib.sim import context_parallel as sim
from dtlib.sim.tensor_parallel import block_activations
from dtlib.sim.traffic import collective
from tests import context_parallel_cases as cases
from tests.scratch_cases import ROUNDING, optimizer, raised

SEED = int(os.environ.get("SCRATCH_SEED", "20261130"))
RANKS = (2, 3, 4)
COUNT = 36
# 2, 3 and 4 ranks divide 12 heads, and twice as many chunks the 24 positions.
CONFIG = gpt.GPTConfig(vocab_size=13, context=25, layers=2, heads=12, width=48)
BATCH, POSITIONS, STEPS = 2, 24, 10
HEADS, KV_HEADS, HEAD_SIZE = 24, 12, 5  # of one layer, whose messages are counted
RULES = "sgd", "adamw"
BIAS = "attn.c_attn.bias"


def batch(step):
    """Tokens and labels, of which the first few do not count, as with a prompt."""
    generator = torch.Generator().manual_seed(step)
    text = torch.randint(0, CONFIG.vocab_size, (BATCH, POSITIONS + 1), generator=generator)
    return text[:, :-1], text[:, 1:].masked_fill(torch.arange(POSITIONS) < step % 4, -100)


def train(rule):
    """Ten steps of each kind beside one process; largest gaps of losses, gradients and weights.

    `optimizer`: SGD with lr 0.1 and momentum 0.9; AdamW with lr 0.01 and epsilon 1e-8. The bias of
    the keys adds the same to all scores of a query, so that its true gradient is 0. AdamW would
    divide its rounding errors by their own size: of that bias the gradients are compared alone.
    """
    serial = gpt.GPT(CONFIG, seed=1).double()
    theirs = optimizer(rule, serial)
    models = {kind: cp.ContextParallelGPT(serial, kind) for kind in sim.KINDS}
    ours = {kind: optimizer(rule, model) for kind, model in models.items()}
    gaps = {kind: [] for kind in models}
    for step in range(STEPS):
        tokens, labels = batch(step)
        theirs.zero_grad()
        want = serial(tokens, labels) / (labels >= 0).sum()
        want.backward()
        for kind, model in models.items():
            ours[kind].zero_grad()
            got = model(tokens, labels)
            got.term.backward()
            sum_gradients(model.parameters())
            gaps[kind].append(abs(got.mean.item() - want.item()))
            gaps[kind] += cases.gradients_apart(model, serial)
            ours[kind].step()
        theirs.step()
    return {kind: max([*gaps[kind], *weights_apart(models[kind], serial, rule)]) for kind in models}


def weights_apart(parallel, serial, rule):
    right = dict(serial.named_parameters())
    for name, p in parallel.named_parameters():
        gap = (p - right[name]).abs().detach()
        if rule == "adamw" and name.endswith(BIAS):
            gap[CONFIG.width : 2 * CONFIG.width] = 0
        yield float(gap.max())


def tallies(log):
    return {name: (t.calls, t.payload, t.wire) for name, t in log.tallies.items() if name != "recv"}


def attention_once(kind):
    """Messages of one layer in fp32, and the scores that forward computes for one head."""
    zigzag, n = kind == "zigzag", dist.get_world_size()
    sizes = [BATCH, HEADS, POSITIONS // n, HEAD_SIZE]
    q = torch.randn(sizes, requires_grad=True)
    k, v = (torch.randn([BATCH, KV_HEADS, *sizes[2:]], requires_grad=True) for _ in "kv")
    with CollectiveLog() as log, cases.counted_scores() as computed:
        if kind == "ulysses":
            cp.ulysses_attention(q, k, v).sum().backward()
        else:
            cp.ring_attention(q, k, v, zigzag).sum().backward()
    return tallies(log), computed[0] / (BATCH * HEADS)


def step_once(kind):
    """Messages of a step of the whole model, in fp32."""
    parallel = cp.ContextParallelGPT(gpt.GPT(CONFIG), kind)
    with CollectiveLog() as log:
        parallel(*batch(0)).term.backward()
        sum_gradients(parallel.parameters())
    return tallies(log)


def kept(kind):
    """Bytes that a block keeps for backward, in fp32."""
    parallel = cp.ContextParallelGPT(gpt.GPT(CONFIG), kind)
    weights = {p.untyped_storage().data_ptr() for p in parallel.parameters()}
    saved = SavedTensors(lambda storage: storage.data_ptr() in weights)
    x = torch.randn(BATCH, POSITIONS // dist.get_world_size(), CONFIG.width, requires_grad=True)
    with saved:
        y = parallel.h[0](x.clone())
    del y
    return saved.most


def refusals():
    def model(kind="zigzag", **change):
        return cp.ContextParallelGPT(gpt.GPT(gpt.GPTConfig(**{**vars(CONFIG), **change})), kind)

    def heads(count):
        return torch.randn(1, count, 3, 2)

    tokens = torch.zeros(1, 30, dtype=torch.long)
    return {
        "zigzag": raised(lambda: model()(tokens[:, :6], tokens[:, :6])),
        "ring": raised(lambda: model("ring")(tokens[:, :5], tokens[:, :5])),
        "context": raised(lambda: model()(tokens, tokens)),
        "dropout": raised(lambda: model(dropout=0.2)),
        "kind": raised(lambda: model("zig-zag")),
        "odd": raised(lambda: cp.ring_attention(heads(4), heads(2), heads(2))),
        "shared": raised(lambda: cp.ring_attention(heads(4), heads(3), heads(3), False)),
        "ulysses": raised(lambda: cp.ulysses_attention(heads(4), heads(1), heads(1))),
    }


def half_precision():
    """bf16 in, bf16 out, with sums in fp32: nearer to the truth than attention all in bf16."""
    case = cases.Case("", "zigzag", False, 1, 8, 2, 1, 16, 3, 0)
    q, k, v = (x.bfloat16() for x in cases.heads_of(case))
    own = [cases.mine(case, x, 2).clone().requires_grad_() for x in (q, k, v)]
    with CollectiveLog() as log:
        got = cp.ring_attention(*own)
        got.sum().backward()
    exact = (x.double() for x in (q, k, v))
    want = F.scaled_dot_product_attention(*exact, is_causal=True, enable_gqa=True)
    gap = cases.far(got.double(), cases.mine(case, want, 2))
    return gap, {got.dtype, *(x.grad.dtype for x in own)}, log.tallies["send"].payload


def no_labels():
    """The mean loss of a batch in which nothing counts is 0, and no number is lost."""
    loss = cp.mean_loss(torch.zeros(()), torch.full((1, 2), -100))
    return loss.term.item(), loss.mean.item()


def on_meta():
    """A shape without numbers, as a pipeline asks for it: every kind gives one, nothing is sent."""
    layer = torch.nn.Linear(8, 24, device="meta"), torch.nn.Linear(8, 8, device="meta")
    x = torch.empty(2, 6, 8, device="meta")
    with CollectiveLog() as log:
        shapes = {cp.Attention(*layer, 4, kind=kind)(x).shape for kind in sim.KINDS}
    return shapes, len(log.tallies)


def everything(drawn):
    found = {
        "apart": cases.apart(drawn),
        "trained": {rule: train(rule) for rule in RULES},
        "attention": {kind: attention_once(kind) for kind in sim.KINDS},
        "step": {kind: step_once(kind) for kind in sim.KINDS},
        "kept": {kind: kept(kind) for kind in sim.KINDS},
    }
    if dist.get_world_size() == 2:
        found |= {"refused": refusals(), "half": half_precision(), "none": no_labels()}
        found["meta"] = on_meta()
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
@pytest.mark.parametrize("kind", sim.KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_ten_steps_of_a_gpt_equal_one_process(found, ranks, kind, rule):
    for rank in found[ranks]:
        assert rank["trained"][rule][kind] < ROUNDING


def formula(kind, ranks, heads, kv_heads, head_size, layers=1):
    """Rows of what forward and backward send, and how many calls of each collective."""
    if kind == "ulysses":
        sizes = BATCH, POSITIONS, heads, kv_heads, head_size
        return sim.ulysses_traffic(*sizes, ranks, 4, layers=layers), {"all_to_all": 8 * layers}
    sizes = BATCH, POSITIONS, kv_heads, head_size
    rows = sim.ring_traffic(*sizes, ranks, 4, layers=layers)
    return rows, {"send": sim.ring_messages(ranks, layers)}


def agree(sent, rows, calls):
    assert {name: times for name, (times, *_) in sent.items()} == calls
    for name, (_, payload, wire) in sent.items():
        of_name = [row for row in rows if row["collective"] == name]
        assert payload == sum(row["payload"] for row in of_name)
        assert wire == pytest.approx(sum(row["wire"] for row in of_name))


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("kind", sim.KINDS)
def test_messages_and_bytes_sent_are_the_formulas(found, ranks, kind):
    layer = formula(kind, ranks, HEADS, KV_HEADS, HEAD_SIZE)
    size = CONFIG.heads, CONFIG.heads, CONFIG.width // CONFIG.heads, CONFIG.layers
    rows, calls = formula(kind, ranks, *size)
    weights = sum(p.numel() for p in gpt.GPT(CONFIG).parameters())
    rows += [collective("all_reduce", what, n, ranks, 4) for what, n in
             (("gradients", weights), ("the loss", 2))]  # fmt: skip
    for rank in found[ranks]:
        agree(rank["attention"][kind][0], *layer)
        agree(rank["step"][kind], rows, calls | {"all_reduce": 2})


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("kind", ["ring", "zigzag"])
def test_each_rank_computes_the_scores_of_the_formula(found, ranks, kind):
    zigzag = kind == "zigzag"
    want = [sim.scores(POSITIONS, r, ranks, zigzag) for r in range(ranks)]
    assert [rank["attention"][kind][1] for rank in found[ranks]] == want
    assert (len(set(want)) == 1) == zigzag
    # step by step, as drawn: what all of them compute, and what all of them wait for
    square = (POSITIONS // (2 * ranks if zigzag else ranks)) ** 2
    steps = [[len(pairs) * square for _, pairs in step] for step in sim.ring_steps(ranks, zigzag)]
    assert [sum(of_rank) for of_rank in zip(*steps, strict=True)] == want
    assert sum(map(max, steps)) == sim.scores_of_slowest(POSITIONS, ranks, zigzag)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_block_keeps_what_one_of_its_own_positions_keeps(found, ranks):
    own = POSITIONS // ranks
    want = block_activations(own, BATCH, CONFIG.width, CONFIG.heads, "fp32", 1)
    for rank in found[ranks]:
        assert rank["kept"]["ring"] == rank["kept"]["zigzag"] == want
        # Ulysses keeps the output twice: some heads for attention, some positions for c_proj
        assert rank["kept"]["ulysses"] == want + 4 * BATCH * own * CONFIG.width


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("zigzag", [False, True])
def test_every_step_has_all_keys_once_and_every_pair_is_met_once(ranks, zigzag):
    steps = sim.ring_steps(ranks, zigzag)
    assert all(sorted(holder for holder, _ in step) == list(range(ranks)) for step in steps)
    met = [pair for step in steps for _, pairs in step for pair in pairs]
    count = 2 * ranks if zigzag else ranks
    assert sorted(met) == [(q, k) for q in range(count) for k in range(q + 1)]


def test_one_rank_sends_nothing():
    assert sim.ring_messages(1) == 0
    rows = sim.ring_traffic(2, 8, 2, 4, 1, 4) + sim.ulysses_traffic(2, 8, 4, 2, 4, 1, 4)
    assert sum(row["wire"] for row in rows) == 0


def test_refusals(found):
    for rank, of_rank in enumerate(found[2]):
        refused = of_rank["refused"]
        assert all(said.startswith("BadInput: ") for said in refused.values()), refused
        for what, (positions, chunks) in {"zigzag": (6, 4), "ring": (5, 2)}.items():
            cut = f"rank {rank}: {positions} positions cannot be cut into {chunks} equal chunks"
            assert cut in refused[what]
            assert f"a multiple of {chunks}." in refused[what]
        assert "a sequence of 30 tokens exceeds the context of 25" in refused["context"]
        assert "drops 0.2 of its attention's probabilities" in refused["dropout"]
        assert "Did you mean 'zigzag'?" in refused["kind"]
        assert f"rank {rank}: 3 positions are not two equal chunks" in refused["odd"]
        assert f"rank {rank}: 4 query heads cannot share 3 keys" in refused["shared"]
        assert f"rank {rank}: 4 query heads must be a multiple of the 1 of" in refused["ulysses"]


def test_corners(found):
    for rank in found[2]:
        gap, dtypes, sent = rank["half"]
        assert gap < 2**-8  # one rounding to bf16, of numbers near 1
        assert dtypes == {torch.bfloat16}
        # keys and values travel in bf16, their gradients in fp32
        assert sent == sum(row["payload"] for row in sim.ring_traffic(1, 32, 1, 16, 2, 2, 4))
        assert rank["none"] == (0.0, 0.0)
        assert rank["meta"] == ({(2, 6, 8)}, 0)
