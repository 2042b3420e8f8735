"""Runs with --profile: a trace a rank, shares and a verdict in the summary."""

import json

import pytest

import dtlib
from dtlib.cli import main

SMALL = {"model": "nano", "global_batch": 8, "num_samples": 64, "strategy": "ddp", "ranks": 2}


def test_a_profile_has_a_trace_for_each_rank_and_a_verdict(tmp_path, capsys):
    run = dtlib.train("text", steps=6, profile=True, out=str(tmp_path / "run"), **SMALL)
    assert sorted(p.name for p in (run.folder / "profile").iterdir()) == [
        "rank0.json",
        "rank1.json",
    ]
    found = run.summary["profile"]
    assert [one["rank"] for one in found["shares"]] == [0, 1]
    for one in found["shares"]:
        parts = [one[part] for part in ("compute", "communication", "input", "idle")]
        assert sum(parts) == pytest.approx(1) and one["steps"] == 3
        assert one["communication"] + one["hidden"] > 0  # DDP's all-reduces are seen
    assert "-bound: " in found["verdict"]
    assert run.summary["comm_share"] == found["shares"][0]["communication"]
    # what was looked at enters no timing
    assert run.summary["warmup_steps"] == 5 and run.summary["timed_steps"] == 1


def test_the_losses_are_those_of_a_run_that_nobody_looks_at(tmp_path):
    losses = [
        [line["loss"] for line in dtlib.train(
            "text", steps=6, profile=profile, out=str(tmp_path / str(profile)), **SMALL).history]
        for profile in (False, True)
    ]  # fmt: skip
    assert losses[0] == losses[1]


def test_a_run_that_is_too_short_says_so_and_is_done(tmp_path, capfd):
    words = "train text --model nano --num-samples 64 --global-batch 8 --ranks 1 --strategy single"
    assert (
        main([*words.split(), "--steps", "2", "--profile", "--out", str(tmp_path / "r"), "--json"])
        == 0
    )
    out = capfd.readouterr().out
    assert "No profile: profiling takes 5 steps, and fewer were left." in out
    assert "profile" not in json.loads(out.splitlines()[-1])
