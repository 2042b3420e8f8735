"""The script that records lessons 27 and 28 on a GPU, as far as no GPU is needed to test it."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from dtlib.learn.recorded import recorded
from dtlib.learn.source import find
from dtlib.training.record import Run

FILE = Path(__file__).parents[2] / "slurm" / "gpu_records.py"
spec = importlib.util.spec_from_file_location("gpu_records", FILE)
gpu_records = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gpu_records)


def run_of(rate: float, **config: object) -> Run:
    config = {"task": "images", "strategy": "single", **config}
    return Run(Path("a"), config, {"throughput": rate, "timed_steps": 50}, [], [])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_in_one_sentence_and_starts_nothing(tmp_path, capsys):
    assert gpu_records.main(["--out", str(tmp_path / "new")]) == 69
    said = capsys.readouterr().err.strip()
    assert said.startswith("torch finds no NVIDIA GPU here") and said.count("\n") == 0
    assert not (tmp_path / "new").exists()


def test_a_copy_that_is_no_checkout_has_to_say_its_commit(tmp_path, capsys):
    words = ["--rehearse", "--commit", "", "--out", str(tmp_path / "new")]
    assert gpu_records.main(words) == 2
    assert "--commit" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["27", "28"])
def test_each_lesson_has_its_runs_before_the_heading_that_ends_the_notebook(number):
    texts = [cell.text for cell in find(number).cells]
    (end,) = [i for i, text in enumerate(texts) if gpu_records.ENDS[number] in text.splitlines()]
    table = {"27": "fastest = ", "28": "table = rows.tidy("}[number]
    assert any(table in text for text in texts[:end])


def test_a_row_of_the_ladder_is_the_median_of_the_runs_of_one_setting():
    fast = {"precision": "bf16", "compile": True}
    runs = [run_of(100), run_of(900, **fast), run_of(300), run_of(200)]
    slow, compiled = gpu_records.ladder(runs)
    keys = ("n", "images_per_second", "slowest", "fastest", "compile")
    assert [slow[key] for key in keys] == [3, 200, 100, 300, None]
    assert [compiled[key] for key in keys] == [1, 900, 900, 900, True]


def test_the_longest_kernels_of_a_trace_leave_out_what_runs_on_the_host(tmp_path):
    spans = [("gemm", "kernel", 2000), ("add", "kernel", 5000), ("gemm", "kernel", 4000)]
    events = [{"name": n, "cat": c, "dur": d} for n, c, d in [*spans, ("aten::mm", "cpu_op", 9e9)]]
    (tmp_path / "profile").mkdir()
    file = tmp_path / "profile" / "rank0.json"
    file.write_text(json.dumps({"traceEvents": [*events, {"name": "no duration"}]}))
    found = gpu_records.longest(tmp_path)
    assert found["kind"] == "kernel"
    assert found["longest"] == [
        {"name": "gemm", "calls": 2, "ms": 6.0}, {"name": "add", "calls": 1, "ms": 5.0},
    ]  # fmt: skip


def test_the_lessons_read_what_it_writes(tmp_path, monkeypatch):
    for number in ("27", "28"):
        room = tmp_path / find(number).stem
        room.mkdir()
        (room / "lesson.py").write_text(find(number).text)
    monkeypatch.setenv("DTLIB_LESSONS", str(tmp_path))
    said = gpu_records.about("0123456789abcdef")
    run = run_of(7, model="gpt2", max_length=1024, compile=False)
    found = {"ladder": gpu_records.ladder([run]), "table": gpu_records.table([run]), "trace": None}
    gpu_records.write_records(said, found)
    one, two = recorded("27_gpu_ladder"), recorded("28_gpt2")
    assert one["rows"][0]["images_per_second"] == "7"
    assert {key: two["rows"][0][key] for key in ("model", "max_length", "compile", "n")} == {
        "model": "gpt2", "max_length": 1024, "compile": False, "n": 1,
    }  # fmt: skip
    for read in (one, two):
        assert read.about["device"] == said["device"] and read.about["commit"] == said["commit"]
        assert f"torch {torch.__version__}".partition("+")[0] in str(read)
