"""The page of a batch job, with programs in Slurm's place; the real one is in tests/slurm."""

import json
import os

import pytest
from report_reading import read, rows_of

from dtlib.cli import main
from dtlib.errors import BadInput
from dtlib.study.report import page_of

LOG = """2026-11-28 10:00:30 job 41, start 0, on n[1-2]; its files are in batch/x-41
some output
2026-11-28 10:10:30 job 41, start 0, ended with exit code 75
2026-11-28 10:15:00 job 41, start 1, on n[2-3]; its files are in batch/x-41
2026-11-28 10:20:00 job 41, start 1, ended with exit code 0
"""
SACCT = """41|REQUEUED|2026-11-28T10:00:00|2026-11-28T10:00:30|2026-11-28T10:10:31
41|COMPLETED|2026-11-28T10:10:31|2026-11-28T10:15:00|2026-11-28T10:20:01
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job that was requeued once, and a Slurm that says what two files say."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sacct", "scontrol"):
        (programs / name).write_text(f"#!/bin/sh\ncat {tmp_path / name} 2>/dev/null\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "batch" / "x-41"
    inside = folder / "r1" / "runs" / "text-001"
    inside.mkdir(parents=True)
    (inside / "config.json").write_text('{"task": "text", "global_batch": 8}')
    lines = (f'{{"step": {k}, "loss": {4 - k}, "seconds": 0.5}}\n' for k in (1, 2, 3))
    (inside / "metrics.jsonl").write_text("".join(lines))
    summary = {"steps": 3, "loss": 1.0, "timed_steps": 2, "warmup_steps": 1, "step_time_s": 0.5,
               "throughput": 1024.0, "throughput_unit": "tokens/s", "job_id": "41"}  # fmt: skip
    (inside / "summary.json").write_text(json.dumps(summary))
    told = {"id": 41, "name": "x", "lesson": "09", "nodes": 2, "state": "COMPLETED",
            "exit_code": "0:0"}  # fmt: skip
    (folder / "job.json").write_text(json.dumps(told))
    (folder / "exit-code.r0").write_text("75\n")
    (folder / "exit-code.r1").write_text("0\n")
    (folder.parent / "x-41.log").write_text(LOG)
    (tmp_path / "sacct").write_text(SACCT)
    return folder


def test_the_page_of_a_job_has_queue_starts_and_its_runs(job, capsys):
    assert main(["report", str(job)]) == 0
    assert capsys.readouterr().out.startswith("Job 41, x: COMPLETED, exit code 0:0.\n")
    page = page_of(job)
    assert rows_of(page, "In the queue") == [
        ("41", "REQUEUED", "30 s", "10 min 1 s", "2026-11-28 10:00:30"),
        ("41", "COMPLETED", "4 min 29 s", "5 min 1 s", "2026-11-28 10:15:00"),
    ]
    assert rows_of(page, "Starts") == [
        ("start 0", "2026-11-28 10:00:30", "n[1-2]",
         "75, stopped with a checkpoint, to be resumed"),
        ("start 1", "2026-11-28 10:15:00", "n[2-3]", "0, done"),
    ]  # fmt: skip
    headings = [section.heading for section in page.sections]
    assert headings[2:] == ["Run r1/runs/text-001", "Settings and results", "Steps",
                            "The end of x-41.log"]  # fmt: skip
    assert page.missing == [
        "run r1/runs/text-001: shares of a step, and a verdict: train with --profile",
        "run r1/runs/text-001: use, memory, power and clocks of the devices: train with --monitor",
    ]
    read(job / "report.html")


def test_without_accounting_the_controller_tells_of_the_last_start(job, tmp_path):
    (tmp_path / "sacct").unlink()
    (tmp_path / "scontrol").write_text(
        "JobId=41 JobState=RUNNING SubmitTime=2026-11-28T10:00:00 StartTime=2026-11-28T10:00:45"
        " EndTime=Unknown\n"
    )
    assert rows_of(page_of(job), "In the queue") == [
        ("41", "RUNNING", "45 s", "not known", "2026-11-28 10:00:45")
    ]


def test_what_slurm_no_longer_tells_is_said_to_be_unknown(job, tmp_path):
    (tmp_path / "sacct").unlink()
    page = page_of(job)
    assert "time in the queue: neither sacct nor scontrol knows the job" in page.missing
    assert rows_of(page, "In the queue") == [] and page.ended == "COMPLETED, exit code 0:0."


def test_a_job_by_plain_sbatch_is_known_by_its_exit_codes(job, tmp_path):
    (job / "job.json").unlink()
    assert page_of(job).ended == "COMPLETED."
    (tmp_path / "sacct").unlink()
    assert page_of(job).ended == "see the exit codes of its starts."


def test_a_start_that_was_killed_has_no_exit_code(job):
    (job / "exit-code.r1").unlink()
    assert rows_of(page_of(job), "Starts")[1][-1] == (
        "none was written: it was killed, or is still running"
    )


def test_the_tasks_of_an_array_are_starts_of_their_own(job):
    for task in (0, 10, 2):
        (job / f"exit-code.t{task}.r0").write_text("1\n")
    names = [row[0] for row in rows_of(page_of(job), "Starts")]
    assert names == ["start 0", "start 1", *(f"task {task}, start 0" for task in (0, 2, 10))]


def test_a_run_or_another_job_that_is_damaged_spoils_no_page(job):
    other = job.parent / "other-9"
    other.mkdir()
    (other / "job.json").write_text("cut")
    (job / "exit-code.r7").write_bytes(b"\xff")
    (job / "r1" / "runs" / "text-001" / "config.json").write_text("cut")
    page = page_of(job)
    assert any("config.json cannot be read" in one for one in page.missing)
    assert len(rows_of(page, "Starts")) == 3
    (job / "job.json").write_text("cut")
    with pytest.raises(BadInput, match=r"job\.json is damaged"):
        page_of(job)
