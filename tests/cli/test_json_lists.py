"""Every command that lists something lists it as JSON, too: that, and nothing else, on stdout."""

from __future__ import annotations

import json

import pytest

from dtlib import cli
from dtlib.cluster import batch
from dtlib.cluster.batch import following

# The words of a list, and what stands in it.
LISTS = {
    "fetch": "cifar10",
    "fetch --urls gpt2-tokenizer": "sha256",
    "ops list": "cpu_adam",
    "lessons list": "Start here",
    "batch status --out jobs": "dtlib-09",
    "batch collect --out jobs": "runs.csv",
    "study strong text --ranks 1,2 --steps 9 --parts": "name",
    "study weak text --ranks 1,2 --steps 9 --parts": "name",
    "study sensitivity text --precision fp32,bf16 --steps 9 --parts": "bf16",
    "sim memory": "communication",
    "profile read table.csv": "gemm",
}
NCU = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n"0","gemm","1000"\n'


@pytest.mark.parametrize("words", LISTS)
def test_a_list_is_json_and_nothing_else(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(following, "refreshed", batch.jobs)  # no Slurm is asked
    batch.Job(7, "dtlib-09", "09", 2, state="COMPLETED").save(tmp_path / "jobs")
    (tmp_path / "table.csv").write_text(NCU)
    assert cli.main([*words.split(), "--json"]) == 0
    said = capsys.readouterr().out
    assert LISTS[words] in json.dumps(json.loads(said), ensure_ascii=False)
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", ["fetch cifar10", "ops build", "study strong text --steps 9"])
def test_what_lists_nothing_says_that_json_is_for_lists(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*words.split(), "--json"]) == 2
    assert "--json goes with" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
