"""TF32 is asked for or forbidden, never left to chance; channels_last changes no result."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dtlib
from dtlib.config import RunConfig
from dtlib.errors import BadInput, Unavailable
from dtlib.ranks import dist
from dtlib.sim.memory import model_states
from dtlib.strategies import find as find_strategy
from dtlib.strategies.precision import choose_fp32
from dtlib.training import start
from dtlib.training.tasks.images import Images
from tests.strategy_runs import TABLE, plain

GPU = torch.device("cuda")


@pytest.fixture
def flags() -> Iterator[None]:
    """What torch allows before and after is the same."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.usefixtures("flags")
def test_tf32_is_set_for_products_and_convolutions_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    for precision, products, convolutions in (
        ("tf32", "high", True), ("fp32", "highest", False), ("bf16", "highest", False)
    ):  # fmt: skip
        choose_fp32(precision, GPU)
        found = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        assert found == (products, convolutions)


@pytest.mark.usefixtures("flags")
def test_a_gpu_older_than_ampere_refuses_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "T4")
    with pytest.raises(Unavailable, match="T4 has no TF32, which needs Ampere or newer"):
        choose_fp32("tf32", GPU)


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize("name", ["single", "ddp", "fsdp", "zero2", "accelerate", "lightning"])
def test_a_gpu_older_than_ampere_refuses_bf16_under_every_strategy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla V100-SXM2-32GB")
    kind = find_strategy(name)
    monkeypatch.setattr(kind, "place", lambda *_: pytest.fail("the model was placed"))
    world = dist.World(0, 0, 1, 1, GPU, "nccl")
    settings = RunConfig("images", strategy=name, precision="bf16")
    strategy = kind(settings, world, settings.plan(1))
    with pytest.raises(Unavailable, match=r"V100.* has no bf16.*use --precision fp16"):
        strategy.prepare(torch.nn.Linear(2, 2), lambda _: pytest.fail("an optimizer was made"))


def test_tf32_on_a_cpu_is_refused_before_a_rank_starts() -> None:
    config = RunConfig("images", precision="tf32", device="cpu")
    for strategy in ("single", "ddp", "fsdp"):
        with pytest.raises(Unavailable, match="NVIDIA's GPUs, and this run uses none"):
            find_strategy(strategy).check(config, 1)


def test_tf32_keeps_what_fp32_keeps() -> None:
    assert model_states(10**6, 2, "zero2", "tf32") == model_states(10**6, 2, "zero2", "fp32")


def task(**settings: Any) -> Images:
    config = RunConfig("images", num_samples=64, global_batch=8, **settings).resolved("cpu")
    return Images(config, dist.world())


def test_channels_last_reaches_weights_and_pictures() -> None:
    for wanted in (False, True):
        made = task(channels_last=wanted)
        ((pixels, _),) = next(made.steps(made.config.plan(1), 0))
        kernels = [p for p in made.model.parameters() if p.dim() == 4 and p.shape[2] > 1]
        for tensor in (pixels, made.evaluation_batch(0)[0], *kernels):
            assert tensor.is_contiguous(memory_format=torch.channels_last) is wanted


def test_channels_last_trains_the_same(cifar_binary: Path) -> None:
    settings: dict[str, Any] = {
        "precision": "fp64", "norm": "group", "width": 8, "steps": 3, "data": str(cifar_binary),
        "global_batch": 8, "ranks": 2, "device": "cpu",
    }  # fmt: skip
    runs = [dtlib.train("images", channels_last=last, **settings) for last in (False, True)]
    losses = [[line["loss"] for line in run.history] for run in runs]
    # in fp64 what the order of a sum changes stays under 1e-10, as the architecture page says
    assert losses[1] == pytest.approx(losses[0], rel=1e-10, abs=0)


@pytest.mark.parametrize("strategy", [name for name in plain(TABLE) if TABLE[name].cuts])
def test_what_shards_refuses_channels_last(strategy: str) -> None:
    config = RunConfig("images", strategy=strategy, channels_last=True, ranks=2, device="cpu")
    with pytest.raises(BadInput, match=f"channels_last does not go with strategy {strategy}"):
        start.prepare(config)


def test_text_has_no_channels() -> None:
    with pytest.raises(BadInput, match="channels_last has no effect with task text"):
        RunConfig("text", channels_last=True)
