"""Accelerate and DeepSpeed: batch sizes, schedules, and machines that lack what they need."""

import os

import pytest
import torch
from processes import python

from dtlib import launch, strategies
from dtlib.config import RunConfig
from dtlib.errors import Unavailable
from dtlib.strategies import deepspeed_config
from dtlib.strategies.optim import learning_rate
from tests.toy import Scale, config, ready


# field bug 3.02
def test_a_machine_without_gpus_gets_gloo_and_a_wish_for_cuda_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch.distributed.is_gloo_available()
    with pytest.raises(Unavailable, match="No CUDA GPU is usable here; use --device cpu"):
        launch(os.getpid, ranks=2, device="cuda", timeout=5)


# field bug 3.03
def test_auto_becomes_what_the_run_says():
    settings = RunConfig("text", global_batch=64, micro_batch=4, lr=1e-3, strategy="zero2")
    plan = settings.plan(2)
    sizes = deepspeed_config.Sizes(1000, 100, 10)
    made = deepspeed_config.make(settings.resolved("cpu"), plan, sizes)
    own = dict.fromkeys(deepspeed_config.BATCH, "auto")
    filled = deepspeed_config.fill_in(own, made)
    assert [filled[key] for key in deepspeed_config.BATCH] == [64, 4, 8]


def rates(strategy: str) -> list[float]:
    """The rate that the optimizer has in each of 8 steps of a schedule."""
    settings = config(strategy=strategy, lr=1.0, schedule="cosine", steps=8, global_batch=2)
    made = ready(strategies.find(strategy), settings, Scale())
    found = []
    for step in range(8):
        made.backward(made.model(torch.ones(1)).sum(), torch.tensor(2.0))
        made.step(learning_rate(settings, step, 8))
        found.append(made.optimizer.param_groups[0]["lr"])
    return found


# field bug 3.04
def test_the_schedule_counts_steps_whatever_the_ranks():
    """A schedule that Accelerate prepares steps once for each rank: two ranks are done after 4."""
    pytest.importorskip("accelerate")
    settings = config(lr=1.0, schedule="cosine", steps=8)
    expected = [learning_rate(settings, step, 8) for step in range(8)]
    assert expected == sorted(expected, reverse=True)
    assert expected[-1] == pytest.approx(settings.lr_floor)
    assert launch(rates, "accelerate", ranks=2, timeout=30) == [expected] * 2


# field bug 3.05
def test_infinity_without_its_operators_is_one_sentence_before_any_process(monkeypatch, tmp_path):
    pytest.importorskip("deepspeed")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))  # nothing is built
    monkeypatch.setenv("PATH", "")  # and nothing could be
    settings = config(strategy="infinity", nvme=str(tmp_path / "nvme"))
    with pytest.raises(Unavailable) as refused:
        strategies.find("infinity").check(settings, 2)
    assert refused.value.exit_code == 69
    assert "infinity" in str(refused.value)
    # stage 2 with its optimizer on the CPU has torch's AdamW to fall back on
    strategies.find("offload").check(config(strategy="offload", optimizer="adamw"), 2)


# field bug 3.09
def test_without_deepspeed_there_is_a_remedy_and_no_traceback():
    hide = "import sys; sys.modules['deepspeed'] = None; from dtlib.cli import main; "
    words = ["train", "text", "--strategy", "zero2", "--steps", "1", "--ranks", "2"]
    done = python("-c", f"{hide}sys.exit(main({words}))")
    assert done.returncode == 69
    assert done.stderr.startswith("dtlib: strategy zero2 needs DeepSpeed, which ")
    assert done.stderr.count("\n") == 1
