"""What `fully_shard` is told, and what lies on a rank because of it."""

from typing import Any

import pytest
import torch

from dtlib import launch
from dtlib.errors import BadInput
from dtlib.models import gpt, resnet
from dtlib.ranks import dist
from dtlib.strategies.fsdp import FSDP, blocks
from tests.toy import config, ready


def small_gpt() -> gpt.GPT:
    return gpt.GPT(gpt.GPTConfig(vocab_size=10, context=4, layers=2, heads=1, width=8))


def test_what_is_gathered_by_itself():
    model = small_gpt()
    assert blocks(model) == list(model.h)
    pictures = resnet.resnet18(8)
    assert blocks(pictures) == list(pictures.blocks)
    assert blocks(torch.nn.Linear(1, 1)) == []


def test_a_group_that_does_not_divide_the_ranks_is_refused():
    with pytest.raises(BadInput, match="6 ranks cannot be divided into groups of shard_ranks 4"):
        FSDP.check(config(strategy="fsdp", shard_ranks=4), 6)
    with pytest.raises(BadInput, match="no loss scaling; use precision bf16"):
        FSDP.check(config(strategy="fsdp", cpu_offload=True, precision="fp16"), 2)
    with pytest.raises(BadInput, match="strategy fsdp does not run on mps; use device cpu"):
        FSDP.check(config(strategy="fsdp", device="mps"), 1)


def one_step(strategy: FSDP) -> None:
    inputs = torch.arange(4)[None].to(strategy.world.device)
    with strategy.micro_step(True), strategy.autocast():
        loss = strategy.model(inputs).float().square().sum()
    strategy.backward(loss, torch.tensor(1.0))


def elements_held(**settings) -> dict[str, int]:
    """Elements of each kind on this rank, after a backward and a step before it."""
    strategy = ready(FSDP, config(optimizer="adamw", strategy="fsdp", **settings), small_gpt())
    one_step(strategy)
    strategy.step(lr=1e-3)
    one_step(strategy)
    with strategy.evaluating() as score:  # after which nothing may stay gathered
        score(torch.arange(4)[None])
    held = strategy.held()
    moments = [tensor for tensor in held["optimizer"] if tensor.dim()]  # without step counters
    found = {kind: sum(t.numel() for t in tensors) for kind, tensors in held.items()}
    return {**found, "optimizer": sum(t.numel() for t in moments), "whole": strategy.parameters}


def assert_share(by_rank: list[dict[str, int]], shards: int) -> None:
    """Every first dimension here is even, so two shards are exact halves, without padding."""
    whole = sum(p.numel() for p in small_gpt().parameters())
    for held in by_rank:
        assert held["whole"] == whole
        assert held["parameters"] * shards == whole
        assert held["gradients"] * shards == whole
        assert held["optimizer"] * shards == 2 * whole
        assert held["fp32_copy"] == 0


def test_a_rank_holds_its_share_of_weights_gradients_and_moments(on_two_ranks):
    assert_share([found["shared"] for found in on_two_ranks], shards=2)
    assert_share([found["copied"] for found in on_two_ranks], shards=1)


@pytest.mark.slow
def test_groups_of_two_hold_a_copy_each():
    assert_share(launch(elements_held, shard_ranks=2, ranks=4, timeout=60), shards=2)


def note(seen: dict[str, set[torch.dtype]], module: torch.nn.Module, out: torch.Tensor) -> None:
    seen["weights"].update(p.dtype for p in module.parameters())
    seen["out"].add(out.dtype)


def precision_seen(precision: str) -> dict[str, set[torch.dtype]]:
    """Types of the weights in a block's forward, of what leaves it, and of all that is kept."""
    model = small_gpt()
    seen: dict[str, set[torch.dtype]] = {"weights": set(), "out": set()}
    model.h[0].mlp.register_forward_hook(lambda module, _, out: note(seen, module, out))
    strategy = ready(FSDP, config(strategy="fsdp", precision=precision), model)
    one_step(strategy)
    held = strategy.held()
    kept = {tensor.dtype for kind in ("parameters", "gradients") for tensor in held[kind]}
    with strategy.evaluating() as score:
        logits = score(torch.arange(4)[None])
    return {**seen, "kept": kept, "logits": {logits.dtype}}


@pytest.mark.parametrize("precision", ["bf16", "fp32", "fp64"])
def test_the_policy_computes_low_and_keeps_high(on_two_ranks, precision):
    low = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}[precision]
    high = torch.float64 if precision == "fp64" else torch.float32
    expected = {"weights": {low}, "out": {low}, "kept": {high}, "logits": {high}}
    assert [found[precision] for found in on_two_ranks] == [expected] * 2


def gradients_travel() -> tuple[list[bool], list[bool]]:
    """Whether any rank's gradient is there after each of two micro-batches, and weights whole."""
    strategy = ready(FSDP, config(strategy="fsdp", accumulation=2), small_gpt())
    seen, whole = [], []
    for last in (False, True):
        with strategy.micro_step(last), strategy.autocast():
            loss = strategy.model(torch.arange(4)[None]).square().sum()
            strategy.backward(loss, torch.tensor(1.0))
        seen.append(bool(strategy.held()["gradients"]))
        whole.append(sum(t.numel() for t in strategy.held()["parameters"]) == strategy.parameters)
    return seen, whole


# field bug 1.09
def test_gradients_are_reduced_in_the_last_micro_batch_alone(on_two_ranks):
    """Until then they lie whole on each rank, where the optimizer does not see them."""
    assert [found["travel"] for found in on_two_ranks] == [([False, True], [False, False])] * 2


def overflow_on_one_rank() -> tuple[bool, bool, float]:
    """Whether a step is skipped whose gradient is infinite on rank 1 alone, and what it leaves."""
    strategy = ready(FSDP, config(strategy="fsdp", precision="fp16"), small_gpt())
    before = [tensor.clone() for tensor in strategy.held()["parameters"]]
    loss = strategy.model(torch.arange(4)[None]).sum()
    strategy.backward(loss * (float("inf") if dist.world().rank == 1 else 1.0), torch.tensor(1.0))
    skipped = strategy.step(lr=1.0).skipped
    same = all(map(torch.equal, before, strategy.held()["parameters"]))
    return skipped, same, strategy.scaler.get_scale()


def test_all_ranks_skip_the_step_that_overflowed_on_one(on_two_ranks):
    assert [found["overflow"] for found in on_two_ranks] == [(True, True, 2.0**15)] * 2


def pictures_in_bf16() -> tuple[torch.dtype, set[torch.dtype], bool]:
    """Types of what comes out, of batch norms' statistics; and whether those collected any."""
    strategy = ready(FSDP, config(strategy="fsdp", precision="bf16"), resnet.resnet18(8))
    logits = strategy.model(torch.rand(4, 3, 32, 32, device=strategy.world.device))
    strategy.backward(logits.square().sum(), torch.tensor(1.0))
    strategy.step(lr=1e-3)
    means = [b for name, b in strategy.module.named_buffers() if name.endswith("running_mean")]
    return logits.dtype, {mean.dtype for mean in means}, all(mean.any().item() for mean in means)


def test_batch_norms_keep_their_statistics_in_fp32(on_two_ranks):
    expected = (torch.float32, {torch.float32}, True)
    assert [found["pictures"] for found in on_two_ranks] == [expected] * 2


class Tied(torch.nn.Module):
    """An output layer that is the embedding, under a second name."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 6, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.embed(tokens))


def tied_after_loading() -> tuple[list[str], bool, bool]:
    strategy = ready(FSDP, config(strategy="fsdp", optimizer="adamw"), Tied())
    one_step(strategy)
    strategy.step(lr=1e-3)
    state = strategy.state()
    if dist.world().rank:  # as after reading the file, which has the whole tensors
        state["model"] = {name: torch.zeros(6, 4) for name in state["model"]}
        state["optimizer"] = {k: {"embed.weight": torch.zeros(6, 4)} for k in state["optimizer"]}
    strategy.load_state(state)
    module = strategy.module
    tied = module.out.weight is module.embed.weight
    one_step(strategy)
    strategy.step(lr=1e-3)
    return list(state["model"]), tied, module.out.weight is module.embed.weight


def test_tied_weights_have_one_name_and_stay_tied(on_two_ranks):
    assert [found["tied"] for found in on_two_ranks] == [(["embed.weight"], True, True)] * 2


def look() -> dict[str, Any]:
    """All that these tests look at, in one start of two ranks, each of which has to load FSDP."""
    precisions = {precision: precision_seen(precision) for precision in ("bf16", "fp32", "fp64")}
    return {"shared": elements_held(), "copied": elements_held(shard_ranks=1),
            "travel": gradients_travel(), "overflow": overflow_on_one_rank(),
            "pictures": pictures_in_bf16(), "tied": tied_after_loading(), **precisions}  # fmt: skip


@pytest.fixture(scope="module")
def on_two_ranks() -> list[dict[str, Any]]:
    return launch(look, ranks=2, timeout=60)
