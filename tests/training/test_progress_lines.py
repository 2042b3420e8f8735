"""What a run prints while it runs: where and how it computes, and losses of the steps they name."""

from __future__ import annotations

import re

import pytest

import dtlib


def test_a_run_says_where_it_computes_and_whose_losses_it_shows(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    settings = {"steps": 13, "global_batch": 4, "max_length": 16, "num_samples": 64}
    run = dtlib.train("text", 1, out="run", checkpoint_every=0, device="cpu", **settings)
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "[rank 0] 1 rank on cpu with gloo; strategy ddp, records in run"
    losses = {row["step"]: row["loss"] for row in run.history}
    shown = re.findall(r": (\d+) of 13, loss(?: of step (\d+):)? ([\d.]+)", said)
    assert shown[-1][:2] == ("13", "") and any(of for _, of, _ in shown)
    for step, of, loss in shown:
        assert float(loss) == pytest.approx(losses[int(of or step)], rel=1e-3)  # four digits
