"""Strategies: what the gradient means, when gradients travel, and what a step does."""

import copy

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from dtlib import launch, strategies
from dtlib.errors import BadInput, Unavailable
from dtlib.ranks import dist
from dtlib.strategies.ddp import DDP
from dtlib.strategies.optim import learning_rate, make_optimizer
from dtlib.strategies.single import Single
from tests.strategy_runs import HERE
from tests.toy import Scale, as_batches, config, gradient, ready

NUMBERS = [[4], [1, 1, 1]]  # the mean is 7/4; the mean of the two means is 2.5


@pytest.mark.parametrize(("settings", "words"), [
    ({"strategy": "fsdp", "static_graph": True}, "static_graph has no effect with strategy"),
    ({"strategy": "ddp", "zero_stage": 3}, "zero_stage 3 has no effect with strategy ddp"),
    ({"strategy": "ddp", "static_graph": True, "deterministic": True}, "the buckets after step 1"),
    ({"strategy": "ddp", "static_graph": True, "accumulation": 2}, "accumulation 2 it does not"),
])  # fmt: skip
def test_a_setting_that_a_strategy_would_ignore_is_refused(settings, words):
    asked = config(**settings)
    with pytest.raises(BadInput) as caught:
        strategies.find(asked.strategy).check(asked, 1)
        strategies.find(asked.strategy).check_plan(asked, asked.plan(1))
    assert words in str(caught.value)


@pytest.mark.parametrize(("settings", "heeding"), [
    ({"strategy": "single", "bucket_cap_mb": 1.0}, {"accelerate", "ddp", "dp", "lightning"}),
    ({"strategy": "accelerate", "compress_gradients": "bf16"}, {"ddp", "dp"}),
    ({"strategy": "ddp", "cpu_offload": True}, {"fsdp"}),
])  # fmt: skip
def test_a_refused_setting_names_the_strategies_that_heed_it(settings, heeding):
    asked = config(**settings)
    with pytest.raises(BadInput, match=r"; leave it out, or use [a-z0-9_ ]+\.$") as caught:
        strategies.find(asked.strategy).check(asked, 1)
    named = set(str(caught.value).rpartition("or use ")[2].rstrip(".").split(" or "))
    option = next(key for key in settings if key != "strategy")
    kinds = strategies.available()
    assert heeding <= named == {name for name in kinds if option in kinds[name].options}


@pytest.mark.parametrize("name", ["accelerate", "lightning"])
def test_a_missing_package_is_unavailable_before_any_process_starts(name, monkeypatch):
    import importlib.util

    import dtlib
    from dtlib.ranks import launcher

    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    monkeypatch.setattr(launcher, "launch", None)  # calling it would be a TypeError
    with pytest.raises(Unavailable, match=f"is not installed here; run `pip install {name}`"):
        dtlib.train("text", 2, strategy=name)


def test_single_is_one_rank():
    with pytest.raises(BadInput, match="single is one rank, not 4"):
        Single.check(config(strategy="single"), 4)


# field bug 1.05
@pytest.mark.parametrize(("split", "mean"), [
    (NUMBERS, 1.75),
    ([[4, 1, 1, 1]], 1.75),
    ([[4, 1], [1, 1]], 1.75),
    ([[4], [1], [1], [1]], 1.75),
    ([[None, 4], [1, 1, 1]], 1.75),
    ([[None], [None, None]], 0.0),  # no label at all, and no NaN
])  # fmt: skip
def test_gradient_is_the_mean_over_the_window_however_it_is_split(split, mean):
    assert gradient("single", [split]) == (mean, mean)


# field bug 1.06
@pytest.mark.parametrize(("by_rank", "mean"), [
    ([[[4]], [[1, 1, 1]]], 1.75),
    ([[[4, None], [None]], [[1, None], [1, 1]]], 1.75),
    ([[[None]], [[4, 1, 1, 1]]], 1.75),
    ([[[None]], [[None]]], 0.0),  # no label at all, and no NaN
])  # fmt: skip
def test_gradient_is_the_mean_over_ranks_by_the_true_count(by_rank, mean):
    assert launch(gradient, "ddp", by_rank, ranks=2, timeout=20) == [(mean, mean)] * 2


# field bug 1.07
def test_accumulation_does_not_scale_the_gradient_as_sgd_shows():
    """Gradient 2 over four micro-batches at lr 0.1 moves w by -0.2, not by -0.8."""
    settings = config(accumulation=4)
    strategy = ready(Single, settings, Scale())
    for inputs, _ in as_batches([[2], [2], [2], [2]]):
        strategy.backward(strategy.model(inputs).sum(), torch.tensor(4.0))
    strategy.step(lr=0.1)
    assert strategy.module.w.item() == pytest.approx(0.8, abs=1e-7)


def count_and_reduce(calls: list[str], bucket):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    calls.append("all_reduce")
    return allreduce_hook(torch.distributed.group.WORLD, bucket)


def own_until_the_last(names: list[str]) -> tuple[list[tuple[float, float]], list[str]]:
    """The gradient after each of two micro-batches, under several strategies; what ddp sent."""
    found, calls = [], []
    for name in names:
        strategy = ready(strategies.find(name), config(strategy=name), Scale())
        if name == "ddp":
            strategy.model.register_comm_hook(calls, count_and_reduce)
        seen = []
        for last in (False, True):
            with strategy.micro_step(last):
                loss = strategy.model(torch.tensor([1.0 + 2 * dist.world().rank])).sum()
                strategy.backward(loss, torch.tensor(2.0))
            seen.append(strategy.module.w.grad.item())
        strategy.close()
        found.append((seen[0], seen[1]))
    return found, calls


# field bug 1.09
def test_gradients_travel_once_in_the_last_micro_batch():
    """Ranks feed 1 and 3: before the last micro-batch each has its own sum, then both the mean."""
    names = [name for name in ("ddp", "accelerate", "lightning") if name in HERE]
    found = launch(own_until_the_last, names, ranks=2, timeout=60)
    assert found == [([(own, 4.0)] * len(names), ["all_reduce"]) for own in (1.0, 3.0)]


def options_of_ddp() -> tuple[float, float, bool, int]:
    """Gradients as they are and as bf16 sends them; what DDP was told of graph and buckets."""
    plain = ready(DDP, config(), Scale())
    options = {"compress_gradients": "bf16", "static_graph": True, "bucket_cap_mb": 2.0}
    told = ready(DDP, config(**options), Scale())
    for strategy in (plain, told):
        loss = strategy.model(torch.tensor([1.001 + 2 * dist.world().rank])).sum()
        strategy.backward(loss, torch.tensor(2.0))
    ddp = told.model
    assert isinstance(ddp, DistributedDataParallel)
    gradients = (plain.module.w.grad.item(), told.module.w.grad.item())
    return (*gradients, ddp.static_graph, ddp.bucket_bytes_cap)


def test_gradients_in_bf16_lose_their_last_digits_and_options_arrive():
    """Ranks bring 1.001 and 3.001, which bf16 with its 8 bits rounds to 1 and 3."""
    for exact, compressed, static, bucket in launch(options_of_ddp, ranks=2, timeout=20):
        assert exact == pytest.approx(2.001, abs=1e-6)
        assert compressed == 2.0
        assert (static, bucket) == (True, 2 * 2**20)


def checksums() -> list[float]:
    strategy = ready(DDP, config(accumulation=2), Scale())
    sums = []
    for step in range(3):
        for last in (False, True):
            with strategy.micro_step(last):
                x = torch.tensor([float(1 + step + dist.world().rank)])
                strategy.backward(strategy.model(x).sum(), torch.tensor(4.0))
        strategy.step(lr=0.01)
        sums.append(strategy.module.w.item())
    return sums


# field bug 1.09
def test_replicas_stay_equal_after_every_step():
    first, second = launch(checksums, ranks=2, timeout=20)
    assert first == second


class HalfUsed(torch.nn.Module):
    """Two layers, of which the loss sees one."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def steps_until_error() -> tuple[int, str]:
    strategy = ready(DDP, config(), HalfUsed())
    for step in range(3):
        try:
            strategy.backward(strategy.model(torch.ones(1, 1)).sum(), torch.tensor(2.0))
        except RuntimeError as error:
            return step, str(error)
    return 3, ""


# field bug 1.12
def test_an_unused_parameter_is_an_error_at_the_second_step_and_not_silence():
    for step, sentence in launch(steps_until_error, ranks=2, timeout=20):
        assert step == 1
        assert "Expected to have finished reduction" in sentence


# field bug 1.12
def test_our_models_use_every_parameter():
    from dtlib.models import gpt, resnet

    text = gpt.GPT(gpt.shape("nano", vocab_size=8))
    text(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
    images = resnet.resnet18(8)
    images(torch.zeros(2, 3, 32, 32)).sum().backward()
    for model in (text, images):
        assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_a_state_comes_back():
    one, other = (ready(Single, config(optimizer="adamw", lr=0.1), Scale()) for _ in range(2))
    one.backward(one.model(torch.tensor([2.0])).sum(), torch.tensor(1.0))
    one.step(lr=0.1)
    other.load_state(copy.deepcopy(one.state()))  # as if through a file
    for strategy in (one, other):
        strategy.backward(strategy.model(torch.tensor([-1.0])).sum(), torch.tensor(1.0))
        strategy.step(lr=0.1)
    assert one.module.w.item() == other.module.w.item() != 1.0


@pytest.mark.parametrize("name", ["single", "fsdp"])
def test_compile_without_a_compiler_is_unavailable_before_anything_starts(monkeypatch, name):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Unavailable, match=r"needs a C\+\+ compiler; install .* or drop compile\."):
        strategies.find(name).check(config(compile=True), 1)


def modes_asked_for(names):
    asked = []

    def compiled(model=None, mode=None, **_):
        asked.extend([mode] if mode else [])
        return model or (lambda function: function)  # as a decorator, which DeepSpeed has

    torch.compile = torch.nn.Module.compile = compiled
    for name in names:
        for more in ({"compile_mode": "max-autotune"}, {}, {"compile": False}):
            model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2)))
            settings = config(strategy=name, **{"compile": True, **more})
            ready(strategies.find(name), settings, model).close()
    return asked


def test_the_mode_of_torch_compile_is_the_one_asked_for():
    several = "single", "accelerate", "lightning", "fsdp", "zero1"
    names = [name for name in several if name in HERE]
    assert launch(modes_asked_for, names, ranks=1)[0] == ["max-autotune", "default"] * len(names)


def test_a_decay_spares_biases_and_norms():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    for name in ("sgd", "adamw"):
        decayed, spared = make_optimizer(
            config(optimizer=name, weight_decay=0.5), model
        ).param_groups
        assert [p.shape for p in decayed["params"]] == [(2, 3)]
        assert decayed["weight_decay"] == 0.5
        assert len(spared["params"]) == 3
        assert spared["weight_decay"] == 0.0


def test_the_learning_rate_rises_then_falls_to_its_floor():
    settings = config(lr=1.0, schedule="cosine", warmup_steps=3, lr_floor=0.1)
    rates = [learning_rate(settings, step, 14) for step in range(14)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)
    assert rates[8] == pytest.approx(0.55)  # halfway: (1 + 0.1) / 2
    constant = config(lr=1.0, warmup_steps=1)
    assert [learning_rate(constant, step, 4) for step in range(4)] == [0.5, 1.0, 1.0, 1.0]
