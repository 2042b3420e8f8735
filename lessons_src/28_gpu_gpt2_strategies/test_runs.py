"""What lesson 28 runs at full size, tested without a GPU: sizes, shared settings, resuming."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from dtlib.config import RunConfig
from dtlib.sim import tensors
from dtlib.sim.shapes import GPT
from dtlib.strategies import deepspeed_config
from dtlib.strategies.deepspeed_config import Sizes
from dtlib.study import family
from dtlib.training.tasks import text

from . import rehearse, runs

EIGHT = ["single", "ddp", "zero1", "zero2", "zero3", "offload", "infinity", "fsdp"]
FULL = {**runs.shared(True, 4), "model": "gpt2", "max_length": 1024}


def test_full_size_is_gpt2_with_its_own_vocabulary_padded_to_50304(monkeypatch):
    tokens = torch.zeros(100, dtype=torch.int64)
    asked = []

    def open_text(name, *, tokenizer, **_):
        asked.append((name, tokenizer))
        gpt2 = SimpleNamespace(vocab_size=50_257)
        return SimpleNamespace(train=tokens, valid=tokens, tokenizer=gpt2)

    monkeypatch.setattr(text, "open_text", open_text)
    small = RunConfig(**{**FULL, "model": "nano", "max_length": 8})
    task = text.Text(small, SimpleNamespace(device=torch.device("cpu")))
    assert asked == [("wikitext2", "gpt2")]
    assert (task.vocab_size, task.model.wte.num_embeddings) == (50_304, 50_304)
    shape = GPT["gpt2"]
    size = shape["layers"], shape["width"], shape["context"]
    assert tensors.count(tensors.gpt(*size, task.vocab_size)) == 124_439_808 + 47 * 768


def made(config):
    """The DeepSpeed configuration of a planned run."""
    resolved, plan = config.resolved("cuda"), config.plan(config.ranks)
    json = deepspeed_config.make(resolved, plan, Sizes(10**6, 10**5, 50), on_gpu=True)
    if config.deepspeed is None:
        return json
    own = deepspeed_config.read(config.deepspeed)
    deepspeed_config.refuse_contradictions(own, json, resolved, plan)
    return deepspeed_config.fill_in(own, json)


def test_rows_share_all_settings_and_what_a_strategy_brings_is_a_column(tmp_path):
    planned = runs.plans(FULL, 4, EIGHT, tmp_path, full=True)
    assert [one.config.strategy for one in planned] == EIGHT
    own = {"strategy", "ranks", "deepspeed"}
    values = [{k: v for k, v in vars(p.config).items() if k not in own} for p in planned]
    assert all(value == values[0] for value in values)
    found = {}
    for one in planned:
        name, config = one.config.strategy, dataclasses.asdict(one.config)
        if name in ("zero1", "zero2", "zero3", "offload", "infinity"):
            config["framework"] = {"deepspeed": made(one.config)}
        found[name] = tuple(runs.brings(config | {"world_size": one.config.ranks}).values())
    mixed = dict.fromkeys(("zero1", "zero2", "zero3"), ("mixed", True, True))
    assert found == {
        "single": ("autocast", True, None), "ddp": ("autocast", True, True), **mixed,
        "offload": ("mixed", False, True), "infinity": ("mixed", False, True),
        "fsdp": ("policy", True, True),
    }  # fmt: skip


def test_all_rows_are_compiled_or_none_is(tmp_path):
    for full, compiled in ((True, True), (True, False), (False, True)):
        settings = {**runs.shared(full, 4, compiled=compiled), "model": "nano"}
        planned = runs.plans(settings, 4, EIGHT, tmp_path, full)
        assert {one.config.compile for one in planned} == {compiled}
        assert settings["timeout"] == 600


def test_what_is_not_asked_for_is_told_apart():
    """DeepSpeed's own defaults: AdamW is not fused, and nothing overlaps before stage 3."""
    config = {"strategy": "zero2", "precision": "bf16", "world_size": 4}
    engine = {"optimizer": {"params": {"torch_adam": True}}, "zero_optimization": {"stage": 2}}
    told = runs.brings({**config, "framework": {"deepspeed": engine}})
    assert told == {"recipe": "mixed", "fused": False, "overlap": False}


def test_mfu_is_the_share_of_all_gpus_peaks():
    row = {"model": "gpt2", "precision": "bf16", "world_size": 8, "throughput": 8e5}
    row["device"] = "NVIDIA H100 80GB HBM3"
    # 6 FLOP for each of 123.6 million weights that enter products, and 12·L·s·h for attention
    products = 12 * 12 * 768**2 + 768 * 50_304
    token = 6 * products + 12 * 12 * 1024 * 768
    assert runs.mfu(row, 1024, 50_304) == pytest.approx(1e5 * token / 989e12)
    assert runs.mfu({**row, "device": "cpu"}, 1024, 50_304) is None
    assert runs.mfu({**row, "throughput": None}, 1024, 50_304) is None


def test_a_study_that_is_started_again_runs_only_what_is_left(tmp_path, monkeypatch):
    """A requeued job: the notebook starts again in its old folder, and its study resumes."""
    settings = {**runs.shared(False, 2), "model": "nano", "num_samples": 16, "steps": 4}
    done, train = [], family.start.train

    def counted(config):
        done.append(config.strategy)
        return train(config)

    monkeypatch.setattr(family.start, "train", counted)
    folder = tmp_path / "studies" / "gpt2" / "nano"
    for names in (["single"], ["single", "ddp"]):
        family.open_folder(folder, "strategies", settings)
        planned = runs.plans(settings, 2, names, folder, full=False)
        outcomes = list(family.carry_out(folder, planned))
        assert {o.status for o in outcomes} == {"done"}
    assert done == ["single", "ddp"]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_settings_of_full_size_train_on_two_cpu_ranks_too(compiled, tmp_path):
    """Padding, 16 bits, the fused AdamW and overlap: only the model and the text are small."""
    small = {"model": "nano", "max_length": 16, "num_samples": 64, "steps": 4}
    small["timeout"] = 300 if compiled else 60
    settings = {**runs.shared(True, 2, "grammar", compiled), **small}
    names = ["single", "ddp", "zero1", "zero2"]
    names += [] if compiled else ["zero3", "fsdp"]  # stage 3 cannot be compiled
    found = rehearse.together(tmp_path, runs.plans(settings, 2, names, tmp_path, full=True))
    assert [outcome.status for outcome in found] == ["done"] * len(names)
    rows = [outcome.run.summary | runs.brings(outcome.run.config) for outcome in found]
    assert {row["parameters"] for row in rows} == {811_520 + 50 * 128}  # 78 words, padded to 128
    assert all(row["fused"] for row in rows) and all(row["overlap"] for row in rows[1:])
    assert max(row["loss"] for row in rows) - min(row["loss"] for row in rows) < 0.02
