"""Records: nothing is invented, nothing stands twice, warm-up never enters a timing."""

import csv
import json
import math
import subprocess
import time
from pathlib import Path

import pytest
import torch

from dtlib.config.files import write_csv
from dtlib.errors import BadInput
from dtlib.ranks.dist import World
from dtlib.training import record
from dtlib.training.record import Run, RunFiles


def world(rank: int = 0, size: int = 1) -> World:
    return World(rank, rank, size, size, torch.device("cpu"), "gloo" if size > 1 else None)


def test_columns_are_the_designs():
    text = """study, task, model, strategy, precision, nodes, gpus_per_node, world_size,
    global_batch, micro_batch, accumulation, bucket_cap_mb, workers, repeat, warmup_steps,
    timed_steps, step_time_s, epoch_time_s, throughput, throughput_unit, memory_allocated_bytes,
    memory_reserved_bytes, memory_peak_bytes, payload_bytes_per_step, comm_share, data_share,
    gpu_util, mfu, loss, metric, seed, commit, host, device, job_id, measured_or_simulated"""
    assert tuple(name.strip() for name in text.split(",")) == record.COLUMNS


def test_memory_is_not_invented_on_a_cpu():
    columns = record.memory_columns(torch.device("cpu"))
    assert set(columns) <= set(record.COLUMNS)
    assert set(columns.values()) == {None}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_memory_of_a_gpu_is_measured():
    held = torch.ones(1000, device="cuda")
    columns = record.memory_columns(held.device)
    assert columns["memory_peak_bytes"] >= columns["memory_allocated_bytes"] >= 4000


def record_run(folder: Path, steps: range, *, resumed_from: int | None = None) -> RunFiles:
    config = {"task": "text", "lr": 1e-5, "device": "auto"}
    recorder = RunFiles(folder, config, world(), resumed_from=resumed_from)
    for step in steps:
        recorder.step(step, loss=1 / step)
        recorder.rank_step(step, loss_sum=2 / step)
    return recorder


def test_run_comes_back_from_its_folder(tmp_path):
    record_run(tmp_path / "run", range(1, 4)).finish({"loss": 0.25, "warmup_steps": 2})
    run = Run.load(tmp_path / "run")
    assert run.loss == 0.25
    assert run.config == {"task": "text", "lr": 1e-5, "device": "auto"}
    assert [line["step"] for line in run.history] == [1, 2, 3]
    assert run.history[1]["loss"] == 0.5
    own = record.read_lines(tmp_path / "run" / "rank0.jsonl")
    assert [line["loss_sum"] for line in own] == [2, 1, 2 / 3]


def test_summary_says_on_what_it_was_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    record_run(tmp_path, range(1, 2)).finish({"loss": 1.0})
    summary = Run.load(tmp_path).summary
    assert summary["job_id"] == "77"
    assert summary["restart_count"] == 3
    assert summary["device"] == "cpu"
    assert summary["gpus_per_node"] == 0
    assert summary["measured_or_simulated"] == "measured"
    assert set(summary["versions"]) == {"python", "torch", "dtlib"}
    assert summary["started"] <= summary["ended"]


def test_resumed_run_has_no_step_twice(tmp_path):
    record_run(tmp_path, range(1, 8)).close()  # killed after step 7; the checkpoint has 5
    record_run(tmp_path, range(6, 10), resumed_from=5).finish({"loss": 0.0})
    for name in ("metrics.jsonl", "rank0.jsonl"):
        steps = [line["step"] for line in record.read_lines(tmp_path / name)]
        assert steps == list(range(1, 10))


def test_line_that_a_kill_cut_short_is_dropped(tmp_path):
    record_run(tmp_path, range(1, 4)).close()
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 4, "lo')
    assert [line["step"] for line in record.read_lines(path)] == [1, 2, 3]
    record_run(tmp_path, range(4, 6), resumed_from=3).close()
    assert [line["step"] for line in record.read_lines(path)] == [1, 2, 3, 4, 5]


def test_a_last_line_whose_end_an_editor_left_out_is_kept(tmp_path):
    record_run(tmp_path, range(1, 4)).close()
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text().rstrip())
    record_run(tmp_path, range(4, 6), resumed_from=3).close()
    assert [line["step"] for line in record.read_lines(path)] == [1, 2, 3, 4, 5]


def test_every_step_is_on_disk_before_the_next(tmp_path):
    recorder = record_run(tmp_path, range(1, 3))  # not closed: as if killed here
    assert len(record.read_lines(tmp_path / "metrics.jsonl")) == 2
    recorder.close()


def test_loss_that_is_no_number_survives_in_valid_json(tmp_path):
    recorder = RunFiles(tmp_path, {}, world())
    recorder.step(1, loss=math.nan, norm=torch.tensor(math.inf))
    recorder.finish({"loss": -math.inf})
    text = (tmp_path / "metrics.jsonl").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    run = Run.load(tmp_path)
    assert math.isnan(run.history[0]["loss"])
    assert run.history[0]["norm"] == math.inf
    assert run.loss == -math.inf


def test_other_ranks_write_only_files_with_their_rank_in_the_name(tmp_path):
    recorder = RunFiles(tmp_path, {}, world(rank=1, size=2))
    recorder.step(1, loss=1.0)
    recorder.rank_step(1, loss_sum=1.0)
    recorder.requeue(1)
    recorder.finish({"loss": 1.0})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank1.jsonl", "rank1.log"]
    assert " pid " in (tmp_path / "rank1.log").read_text()


def test_requeue_file_goes_when_the_run_goes_on(tmp_path):
    recorder = record_run(tmp_path, range(1, 3))
    recorder.requeue(2)
    recorder.close()
    assert (tmp_path / "requeue").read_text() == "stopped after step 2\n"
    record_run(tmp_path, range(3, 4), resumed_from=2).close()
    assert not (tmp_path / "requeue").exists()


def test_row_has_every_column_and_empty_means_not_measured(tmp_path):
    config = {"task": "text", "warmup_steps": 100, "device": "auto", "seed": 3}
    RunFiles(tmp_path / "run", config, world()).finish({"loss": 1.5, "timed_steps": 8})
    run = Run.load(tmp_path / "run")
    assert tuple(run.row()) == record.COLUMNS
    write_csv(tmp_path / "table.csv", record.COLUMNS, [run.row()] * 2)
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    assert rows[0]["loss"] == "1.5"
    assert rows[0]["seed"] == "3"
    assert rows[0]["device"] == "cpu"  # not "auto", which was only asked for
    assert rows[0]["warmup_steps"] == ""  # the schedule's warm-up is no timing
    assert rows[0]["memory_peak_bytes"] == ""
    assert rows[0]["measured_or_simulated"] == "measured"


def test_run_that_is_not_done_knows_no_device_and_has_no_loss(tmp_path):
    record_run(tmp_path, range(1, 4)).close()
    run = Run.load(tmp_path)
    row = run.row()
    assert (row["task"], row["device"], row["measured_or_simulated"]) == ("text", None, None)
    with pytest.raises(BadInput, match=r"not done \(recorded: 3 steps\).*--resume"):
        _ = run.loss
    with pytest.raises(BadInput, match="holds no run"):
        Run.load(tmp_path / "nothing")


def test_second_run_in_a_folder_is_refused(tmp_path):
    record.make_folder(tmp_path / "new", resume=False)
    record_run(tmp_path, range(1, 2)).close()
    with pytest.raises(BadInput, match="already holds a run: add --resume"):
        record.make_folder(tmp_path, resume=False)
    record.make_folder(tmp_path, resume=True)


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for folder, why in (
        ("file", "there is a file of that"),
        ("file/below", "is a file, not a folder"),
    ):
        with pytest.raises(BadInput, match=rf"cannot be written to \(.*{why}.*\): choose"):
            record.make_folder(tmp_path / folder, resume=True)


@pytest.mark.parametrize("garbage", ["garbage", "[1]", "\xff\x00"])
def test_records_that_cannot_be_read_are_named(tmp_path, garbage):
    record_run(tmp_path, range(1, 4)).finish({"loss": 1.0})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "metrics.jsonl").write_text("".join([lines[0], f"{garbage}\n", *lines[2:]]))
    with pytest.raises(BadInput, match=r"line 2 of .*metrics\.jsonl is not the record of a step"):
        Run.load(tmp_path)
    for name in ("summary.json", "config.json"):
        (tmp_path / name).write_text(garbage)
        with pytest.raises(BadInput, match=rf"{name} cannot be read as the record of a run"):
            Run.load(tmp_path)


def test_new_folders_are_never_the_same(tmp_path):
    names = [record.new_folder(tmp_path / "runs", "text-ddp").name for _ in range(3)]
    assert names == ["text-ddp-001", "text-ddp-002", "text-ddp-003"]


def test_summary_is_replaced_in_one_step(tmp_path, monkeypatch):
    record_run(tmp_path, range(1, 2)).finish({"loss": 1.0})
    recorder = RunFiles(tmp_path / "other", {}, world())
    (tmp_path / "other" / "summary.json").write_text("{}")

    def fail(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        recorder.finish({"loss": 2.0})
    assert (tmp_path / "other" / "summary.json").read_text() == "{}"  # the old one, whole
    assert not list((tmp_path / "other").glob(".tmp-*"))


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def test_commit_is_that_of_the_package_and_says_when_it_was_changed(tmp_path, monkeypatch):
    package = tmp_path / "checkout" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    assert record.commit(package) is None  # not a checkout
    git(package.parent, "init", "-q")
    git(package.parent, "commit", "-q", "--allow-empty", "-m", "Start")
    assert record.commit(package) is None  # inside a checkout, but not part of it
    git(package.parent, "add", "package")
    git(package.parent, "commit", "-q", "-m", "Add the package")
    clean = record.commit(package)
    assert clean is not None and len(clean) == 40
    (package / "__init__.py").write_text("changed = True\n")
    assert record.commit(package) == f"{clean}-dirty"
    monkeypatch.setenv("PATH", "")  # without git
    assert record.commit(package) is None


def test_times_are_utc(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        summary = record_run(tmp_path, range(1, 2)).finish({"loss": 1.0})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert summary["started"].endswith("+00:00")


def test_folder_of_a_run_at_work_is_refused(tmp_path):
    refusal = pytest.raises(BadInput, match="another run is writing to the folder")
    with record.claimed(tmp_path), refusal, record.claimed(tmp_path):
        pass
    with record.claimed(tmp_path):  # it is free again
        pass
