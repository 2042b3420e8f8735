"""ZeRO through DeepSpeed trains the same model as one process, at every stage.

| strategy | against `single` with the same micro-batches, fp32, text |
| --- | --- |
| zero1 against zero2 | the same bits: both add the same buckets in the same order |
| every stage, offload, infinity | 1e-5: the gradient is divided before it is added up |
"""

import sys
from typing import Any

import pytest
import torch

import dtlib
from dtlib import launch
from dtlib.strategies import operators as ops
from tests.strategy_runs import HERE, SMALL, TABLE, figures, state, train

pytestmark = [
    pytest.mark.skipif(not ops.deepspeed_is_here(), reason="DeepSpeed is not installed"),
    pytest.mark.usefixtures("own_folder"),
]
CLOSE = 1e-5  # as in the rows of the table


def here() -> list[str]:
    """Return DeepSpeed's rows that this machine can run: infinity needs compiled operators."""
    unbuilt = {name for name, needed in ops.NEEDED.items() if ops.not_built(needed)} - {"offload"}
    return [n for n in HERE if TABLE[n].framework == "deepspeed" and n not in unbuilt]


def train_each(names: list[str], **settings: Any) -> dict[str, dict[str, Any]]:
    """Train several rows one after the other on the ranks that this runs on."""
    runs = {name: train(name, **settings) for name in names}
    assert "torch._inductor.compile_fx" not in sys.modules, "DeepSpeed loaded a compiler for Muon"
    return {name: {**figures(run), "state": state(run)} for name, run in runs.items()}


def assert_equal_to_single(story: str, names: list[str], ranks: int, **settings) -> dict:
    settings = {"data": story, **settings}
    run = dtlib.train("text", 1, strategy="single", **{**SMALL, **settings})
    expected, whole = figures(run), state(run)
    found = launch(train_each, names, **settings, ranks=ranks, timeout=60)[0]
    for name in names:
        assert found[name]["losses"] == pytest.approx(expected["losses"], abs=CLOSE), name
        assert found[name]["held_out"] == pytest.approx(expected["held_out"], abs=CLOSE), name
        assert found[name]["rates"] == expected["rates"]
        assert found[name]["parameters"] == expected["parameters"]
        for key, tensor in whole["model"].items():
            assert torch.allclose(found[name]["state"]["model"][key], tensor, atol=CLOSE), name
    return found


def test_stages_equal_one_process_and_1_equals_2_bit_for_bit(story):
    found = assert_equal_to_single(story, ["zero1", "zero2", "zero3"], ranks=2)
    assert found["zero1"]["losses"] == found["zero2"]["losses"]
    one, two = (found[name]["state"]["model"] for name in ("zero1", "zero2"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_offload_without_its_operator_steps_with_torchs_adamw_and_says_so(
    story, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "nothing_built"))
    single = dtlib.train("text", 1, strategy="single", **{**SMALL, "data": story})
    run = dtlib.train("text", 2, strategy="offload", **{**SMALL, "data": story})
    assert "torch's slower AdamW" in capfd.readouterr().out
    assert figures(run)["losses"] == pytest.approx(figures(single)["losses"], abs=CLOSE)
    assert not (tmp_path / "nothing_built").exists()  # a run compiles nothing


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_clip_accumulation_and_sgd_on_three_ranks(story):
    """Uneven shares: a gradient that DeepSpeed reads back from a wrong place would show here."""
    settings = {"clip": 0.5, "accumulation": 2, "optimizer": "sgd"}
    assert_equal_to_single(story, here(), ranks=3, **settings)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_offload_and_infinity_equal_one_process(story, tmp_path):
    names = [name for name in here() if name.startswith(("offload", "infinity"))]
    assert_equal_to_single(story, names, ranks=2)
    assert not list(tmp_path.rglob("*.swp"))
    assert not list(tmp_path.rglob("nvme"))
