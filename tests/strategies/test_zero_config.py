"""DeepSpeed's JSON and the manners of its strategies: nothing here starts a process.

What a machine does not have is refused before any rank starts, so all of it holds without
DeepSpeed too;
`DTLIB_BARE=1` (`make bare`) runs these tests with DeepSpeed hidden and PATH empty.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from dtlib import strategies
from dtlib.config.plan import BatchPlan
from dtlib.errors import BadInput, Unavailable
from dtlib.strategies import deepspeed_config, nvme
from dtlib.strategies import operators as ops
from dtlib.strategies.deepspeed_config import Sizes
from tests.toy import config

SIZES = Sizes(parameters=870_000, largest=65_536, tensors=52)
NAMES = ("zero1", "zero2", "zero3", "offload", "infinity")


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    if os.environ.get("DTLIB_BARE"):
        hide(monkeypatch, "deepspeed")
        monkeypatch.setenv("PATH", "")


def hide(monkeypatch, package: str) -> None:
    """Let a package not be found, as where it is not installed."""
    find = importlib.util.find_spec
    there = lambda name, *rest: None if name == package else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", there)


def made(strategy: str, ranks: int = 2, **settings) -> dict:
    settings = {"lr": 0.1, "weight_decay": 0.0, **settings}
    asked = config(strategy=strategy, **settings)
    return deepspeed_config.make(asked, asked.plan(ranks), SIZES)


# field bug 3.03
@pytest.mark.parametrize(("own", "ranks", "words"), [
    ((8, 2, 1), 1, r"= 2; run 4 ranks, or give only two"),
    ((256, 2, None), 7, r"256 is not divisible by micro-batch 2 × 7 ranks = 14"),
    ((8, 0, None), 1, "must be a whole number from 1 on"),
])  # fmt: skip
def test_a_batch_that_contradicts_the_ranks_is_refused_with_the_numbers(own, ranks, words):
    given = {k: v for k, v in zip(deepspeed_config.BATCH, own, strict=True) if v is not None}
    with pytest.raises(BadInput, match=words):
        deepspeed_config.resolve_batch(given, ranks)


# field bug 3.03
def test_what_a_json_leaves_out_of_the_batch_follows_from_the_rest():
    def cut(ranks: int, *own: int | str | None) -> BatchPlan | None:
        pairs = zip(deepspeed_config.BATCH, own, strict=True)
        return deepspeed_config.resolve_batch({k: v for k, v in pairs if v is not None}, ranks)

    whole = BatchPlan(64, 4, 8, 2)
    assert cut(8, None, 2, 4) == cut(8, "auto", 2, 4) == BatchPlan(64, 2, 4, 8)
    assert cut(2, 64, 4, None) == cut(2, 64, 4, "auto") == cut(2, "auto", 4, 8) == whole
    assert cut(2, "auto", None, None) is cut(2, "auto", "auto", None) is None  # the run's own stand


def test_the_json_says_what_the_run_says():
    json_ = made("zero2", global_batch=16, accumulation=2, clip=0.5, optimizer="adamw")
    assert [json_[key] for key in deepspeed_config.BATCH] == [16, 4, 2]
    assert json_["gradient_clipping"] == 0.5
    assert json_["optimizer"]["params"]["eps"] == 1e-5
    assert json_["zero_optimization"]["stage"] == 2
    # buckets are shares of the model, since DeepSpeed's 5e8 would be one of 2 GB
    assert json_["zero_optimization"]["reduce_bucket_size"] == 217_500
    zero3 = made("zero3")["zero_optimization"]
    assert zero3["stage3_param_persistence_threshold"] == 87  # 1e5 would keep a nano GPT whole


@pytest.mark.parametrize("strategy", NAMES)
def test_every_precision_has_one_owner(strategy):
    for precision in ("fp32", "bf16", "fp16"):
        json_ = made(strategy, precision=precision)
        on = [name for name in ("bf16", "fp16") if json_[name]["enabled"]]
        assert on == [precision] * (precision != "fp32")


def test_a_stage_that_contradicts_the_name_is_refused():
    assert deepspeed_config.stage_of(config(strategy="offload", zero_stage=3)) == 3
    with pytest.raises(BadInput, match="strategy zero2 is ZeRO stage 2, not zero_stage 3"):
        deepspeed_config.stage_of(config(strategy="zero2", zero_stage=3))


@pytest.mark.parametrize(("own", "words"), [
    ({"train_batch_size": 32}, "divides a global batch of 32 into micro-batch 16 × accumulation 1"),
    ({"gradient_clipping": 0.5}, "has gradient_clipping 0.5, but this run's clip None"),
    ({"bf16": {"enabled": True}}, "bf16.enabled True, but this run's precision fp32"),
    ({"optimizer": {"params": {"lr": 2.0}}}, "lr 2.0, but this run's lr 0.1"),
    ({"zero_optimization": {"stage": 3}}, "stage 3, but this run's strategy zero2 means 2"),
    ({"scheduler": {}}, "has scheduler, but the loop sets the learning rate"),
])  # fmt: skip
def test_a_json_that_contradicts_the_run_is_refused_with_both_numbers(own, words):
    asked = config(strategy="zero2", global_batch=16, lr=0.1, deepspeed="ds.json")
    with pytest.raises(BadInput) as caught:
        deepspeed_config.refuse_contradictions(
            own, made("zero2", global_batch=16), asked, asked.plan(2)
        )
    assert words in str(caught.value)


def test_auto_is_filled_in_and_the_users_own_values_stay(tmp_path):
    ours = made("zero2")
    own = {
        "zero_optimization": {"stage": "auto", "reduce_bucket_size": 10},
        "gradient_clipping": "auto",
    }
    filled = deepspeed_config.fill_in(own, ours)
    assert filled["zero_optimization"]["stage"] == 2
    assert filled["zero_optimization"]["reduce_bucket_size"] == 10
    assert filled["gradient_clipping"] == 0.0
    with pytest.raises(BadInput, match='flops_profiler is "auto"'):
        deepspeed_config.fill_in({"flops_profiler": "auto"}, ours)
    (tmp_path / "list.json").write_text(json.dumps([1]))
    (tmp_path / "marked.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')  # as Windows' Notepad does
    assert deepspeed_config.read(tmp_path / "marked.json") == {"a": 1}
    for name in ("absent.json", "list.json"):
        with pytest.raises(BadInput, match=name):
            deepspeed_config.read(tmp_path / name)


# field bug 3.05
@pytest.mark.parametrize("strategy", NAMES)
def test_without_deepspeed_a_strategy_is_unavailable_with_the_remedy(strategy, monkeypatch):
    hide(monkeypatch, "deepspeed")
    with pytest.raises(Unavailable, match=r"pip install -c constraints.txt -e '.\[deepspeed\]'"):
        strategies.find(strategy).check(config(strategy=strategy), 2)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Unavailable, match="does not exist for macOS; use strategy fsdp"):
        strategies.find(strategy).check(config(strategy=strategy), 2)


# field bug 3.05
def test_what_a_build_lacks_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(ops, "has_libaio", lambda: False)
    with pytest.raises(Unavailable, match="needs ninja, c\\+\\+, libaio, missing here; apt-get"):
        ops.refuse_unbuildable(["async_io"])


def test_a_missing_nvcc_has_a_remedy_that_apt_has_not(monkeypatch):
    monkeypatch.setattr(ops, "missing_tools", lambda: ["nvcc (CUDA_HOME)"])
    with pytest.raises(
        Unavailable, match=r"needs nvcc \(CUDA_HOME\), missing here; set CUDA"
    ) as caught:
        ops.refuse_unbuildable(["cpu_adam"])
    assert "apt-get" not in str(caught.value)


def test_infinity_without_its_operators_names_the_command(monkeypatch):
    monkeypatch.setattr(ops, "built", lambda name: None)
    with pytest.raises(Unavailable, match="async_io, not built here; `dtlib ops build`"):
        nvme.check(config(strategy="infinity"))


@pytest.mark.parametrize("place", ["/proc/x", "/dev/null"])
def test_a_place_that_cannot_be_written_is_refused_first(place, monkeypatch):
    monkeypatch.setattr(ops, "built", lambda name: "here")
    with pytest.raises(BadInput, match=r"cannot be written to .*choose another --nvme"):
        nvme.check(config(strategy="infinity", nvme=place))


def test_a_disk_too_small_is_refused_with_the_numbers(tmp_path):
    with pytest.raises(Unavailable, match=r"infinity needs .* GiB for 1,000,000,000,000,000 param"):
        nvme.refuse_full(tmp_path / "nvme", 10**15)


def test_a_stale_lock_is_cleared_and_a_live_one_is_not(tmp_path):
    lock = tmp_path / "lock"
    hold = "import sys, time; f = open(sys.argv[1], 'w'); print('held', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", hold, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as builder:
        assert builder.stdout is not None
        builder.stdout.readline()
        assert f"is being built by process {builder.pid}" in ops.clear_lock(tmp_path)[0]
        builder.kill()
    assert "was cut short" in ops.clear_lock(tmp_path)[0]
    assert not lock.exists()
    assert ops.clear_lock(tmp_path) == []


def test_files_of_dead_ranks_are_cleared_and_those_of_living_ones_stay(tmp_path):
    asked = config(strategy="infinity", nvme=str(tmp_path))
    mine = nvme.make(asked, 10)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    dead = mine.with_name(mine.name.rpartition("-")[0] + f"-{gone.pid}")
    dead.mkdir()
    nvme.clear(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]
