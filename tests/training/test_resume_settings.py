"""A run that is resumed with other settings says which of them change its course."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.ranks import launcher
from dtlib.training import start
from dtlib.training.checkpoint import Checkpointer, checkpointer
from dtlib.training.record import Run
from tests.toy import write_story

PLAIN = {"tokenizer": "characters", "model": "nano", "max_length": 8, "global_batch": 6}


def alone(data: str, **settings) -> None:
    """Train in this process, a world of one."""
    plain = {**PLAIN, "data": data, "strategy": "single", "steps": 2}
    start.train_on_rank(start.prepare(RunConfig("text", **{**plain, **settings})))


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory) -> tuple[str, Path]:
    place = tmp_path_factory.mktemp("saved")
    story = write_story(place / "story")
    alone(story, out=str(place / "run"))
    return story, place / "run"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 9}, "steps was 2 and is now 9; the learning rate of the next step is 0.000"),
        ({"epochs": 1, "steps": None}, "steps was 2 and is now None, epochs was None and is now 1"),
        ({"lr": 0.5}, "lr was 0.001 and is now 0.5; the learning rate of the next step is"),
        ({"schedule": "constant"}, "schedule was cosine and is now constant; the learning rate"),
        ({"lr_floor": 0.0}, "lr_floor was 0.1 and is now 0.0; the learning rate"),
        ({"warmup_steps": 1}, "warmup_steps was 0 and is now 1"),
        ({"clip": 1.0}, "clip was None and is now 1.0"),
        ({"weight_decay": 0.0, "adam_eps": 1e-8},
         "adam_eps was 1e-05 and is now 1e-08, weight_decay was 0.1 and is now 0.0"),
    ],
)  # fmt: skip
def test_a_resumed_run_names_what_changes_how_it_goes_on(
    settings, words, saved_run, capsys, tmp_path
):
    data, folder = saved_run
    shutil.copytree(folder, tmp_path / "run")
    alone(data, resume=True, out=str(tmp_path / "run"), **settings)
    assert f"The settings have changed: {words}" in capsys.readouterr().out


def test_a_batch_that_was_left_to_the_plan_is_the_same_when_the_run_goes_on(saved_run, tmp_path):
    data, _ = saved_run
    out, left = str(tmp_path / "run"), {"global_batch": None, "micro_batch": None}
    alone(data, out=out, **left)
    alone(data, out=out, **left, resume=True, steps=3)
    alone(data, out=out, **left | {"micro_batch": 8, "accumulation": 2}, resume=True, steps=4)
    assert Run.load(out).summary["steps"] == 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"seed": 1}, "seed was 0 and is now 1"), ({"global_batch": 8}, "global_batch was 6")],
)
def test_another_run_is_refused_before_any_rank_starts(settings, words, saved_run, monkeypatch):
    data, folder = saved_run
    asked = RunConfig("text", **{**PLAIN, "data": data, "resume": True, "out": str(folder),
                                 "strategy": "single", "steps": 2, **settings})  # fmt: skip
    monkeypatch.setattr(launcher, "launch", None)  # calling it would be a TypeError
    with pytest.raises(BadInput, match=words):
        start.train(asked)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (RunConfig("images", norm="batch"), True),
        (RunConfig("images", norm="group"), False),
        (RunConfig("text", dropout=0.1), True),
        (RunConfig("text"), False),
    ],
)
def test_another_cut_is_named_where_a_step_follows_from_it(settings, named):
    cuts = [settings.plan(ranks).columns() for ranks in (2, 1)]
    before, now = (dataclasses.asdict(settings) | cut for cut in cuts)
    said = Checkpointer(Path("run"), None, now)._changed(before, None)
    assert ("world_size was 2 and is now 1, micro_batch was" in said) == named == bool(said)


def test_every_setting_is_the_same_is_named_or_changes_nothing_when_a_run_goes_on():
    """A setting that is new belongs into one of these."""
    nothing = {
        "strategy", "ranks", "accumulation", "skip_limit", "compile", "compile_mode",
        "bucket_cap_mb", "nvme", "activation_checkpointing", "static_graph", "zero_stage",
        "shard_ranks", "cpu_offload", "ledger", "profile", "nvtx",
        "nvtx_first", "nvtx_last", "monitor", "channels_last", "deterministic", "loader", "workers",
        "device", "threads", "baseline", "untimed_steps", "out", "resume", "eval_every",
        "checkpoint_every", "checkpoints", "tensorboard", "wandb", "timeout",
    }  # fmt: skip
    kinds = checkpointer.SAME_ON_RESUME, checkpointer.NAMED_ON_RESUME, checkpointer.LENGTH
    cut = {*checkpointer.CUT} - {"world_size"}  # which is no setting
    told = [name for kind in (*kinds, cut, nothing) for name in kind]
    assert sorted(told) == sorted(field.name for field in dataclasses.fields(RunConfig))
