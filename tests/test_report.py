"""The page of a run and of a job: what is there is told, what is not is named."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import dtlib
from dtlib.cli import main
from dtlib.errors import BadInput
from dtlib.profiling.monitor import FIELDS
from dtlib.report import figures, page_of, write
from dtlib.report.content import Page, Section, spelled

SMALL = {"model": "nano", "global_batch": 8, "num_samples": 64, "ranks": 1, "strategy": "single"}


class Reader(HTMLParser):
    """Every element with its attributes, the text, and what was not closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.wrong = "", []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(path: Path) -> Reader:
    text = path.read_text(encoding="utf-8")
    page = Reader(text)
    assert not page.wrong
    # no other machine is asked, and nothing runs
    assert not re.search(r"(?:src|href)=\"(?!data:image/svg)", text) and "<script" not in text
    assert all(image["alt"] for image in page.all("img"))
    assert len(page.all("table")) == len(page.all("caption"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert page.all("html") == [{"lang": "en"}]
    return page


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "text-001"
    return dtlib.train("text", steps=7, profile=True, monitor=True, out=str(folder), **SMALL)


def test_the_page_of_a_run_has_its_figures_tables_and_verdict(run, capsys):
    assert main(["report", str(run.folder)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == [
        f"Run text-001: done: 7 steps, loss {run.loss:.6g}.",
        "  not there: figures of a GPU: the monitor was told of none",
        f"The page: {run.folder / 'report.html'}",
    ]
    page = read(run.folder / "report.html")
    words = [image["alt"] or "" for image in page.all("img")]
    losses = [line["loss"] for line in run.history]
    assert words[0].startswith("Loss of each step (loss). this run: 7 points, first")
    assert f"first {losses[0]:.4g}, last {losses[-1]:.4g}" in words[0]
    assert [one.split(" (")[0] for one in words] == [
        "Loss of each step", "Time of each step", "Throughput of each step",
        *(["Processor time of each rank"] if len(words) == 5 else []),
        "Memory of each rank's process",
    ]  # fmt: skip
    assert run.summary["profile"]["verdict"] in page.text
    assert "mean use of the GPUs" in page.text and "not measured" in page.text
    assert "no Slurm job" in page.text and "What is not there" in page.text


def test_a_run_that_was_killed_is_not_called_done(run, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    for name in ("config.json", "metrics.jsonl", "rank0.log"):
        (folder / name).write_text((run.folder / name).read_text())
    (folder / "rank0.log").write_text("started\nthe <last> words\n")
    page = page_of(folder)
    assert page.ended.startswith("not done: there is no summary") and "7 steps" in page.ended
    assert page.missing == [
        "results (summary.json): the run is not done",
        "shares of a step and a verdict: run with --profile",
        "use, memory, power and clocks of the devices: run with --monitor",
    ]
    read_page = read(write(page, tmp_path / "to" / "page.html"))
    assert "the <last> words" in read_page.text
    # without a summary nobody knows the tokens of a step, but its samples
    assert any("(samples/s)" in (image["alt"] or "") for image in read_page.all("img"))
    (folder / "requeue").write_text("stopped after step 7\n")
    assert page_of(folder).ended.startswith("stopped by a signal with a checkpoint")


def test_a_gpu_s_figures_are_drawn_for_every_rank(run, tmp_path):
    folder = tmp_path / "gpu"
    folder.mkdir()
    for name in ("config.json", "metrics.jsonl", "summary.json"):
        (folder / name).write_text((run.folder / name).read_text())
    for rank in range(2):
        rows = [f"{100 + k},{0.5 + rank / 4},8e9,300,1980,2619,54,1,1e9" for k in range(3)]
        text = "\n".join([",".join(FIELDS), *rows])
        (folder / f"monitor.rank{rank}.csv").write_text(text + "\n")
    page = page_of(folder)
    devices = next(section for section in page.sections if section.heading == "Devices")
    words = {one.caption: one.words for one in devices.figures}
    assert words["Use of each GPU"] == (
        "Use of each GPU (%). rank 0: 3 points, first 50, last 50, smallest 50, median 50, largest"
        " 50; rank 1: 3 points, first 75, last 75, smallest 75, median 75, largest 75."
    )
    assert words["Memory in use on each GPU"].startswith("Memory in use on each GPU (GB (10⁹ byt")
    assert len(devices.figures) == 7 and "2 s" in devices.sentences[0]


# --- A job --------------------------------------------------------------------------------------

LOG = """2026-11-28 10:00:30 job 41, start 0, on n[1-2]; what it makes is in batch/x-41
some output
2026-11-28 10:10:30 job 41, start 0, ended with exit code 75
2026-11-28 10:15:00 job 41, start 1, on n[2-3]; what it makes is in batch/x-41
2026-11-28 10:20:00 job 41, start 1, ended with exit code 0
"""
SACCT = """41|REQUEUED|2026-11-28T10:00:00|2026-11-28T10:00:30|2026-11-28T10:10:31
41|COMPLETED|2026-11-28T10:10:31|2026-11-28T10:15:00|2026-11-28T10:20:01
"""


@pytest.fixture
def job(run, tmp_path, monkeypatch):
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
    for name in ("config.json", "metrics.jsonl", "summary.json"):
        (inside / name).write_text((run.folder / name).read_text())
    told = {"id": 41, "name": "x", "lesson": "09", "nodes": 2, "state": "COMPLETED",
            "exit_code": "0:0"}  # fmt: skip
    (folder / "job.json").write_text(json.dumps(told))
    (folder / "exit-code.r0").write_text("75\n")
    (folder / "exit-code.r1").write_text("0\n")
    (folder.parent / "x-41.log").write_text(LOG)
    (tmp_path / "sacct").write_text(SACCT)
    return folder


def rows_of(page: Page, heading: str) -> list[tuple[str, ...]]:
    section = next(one for one in page.sections if one.heading == heading)
    return [tuple(row) for table in section.tables for row in table.rows]


def test_the_page_of_a_job_has_queue_starts_and_its_runs(job, capsys):
    assert main(["report", str(job)]) == 0
    assert capsys.readouterr().out.startswith("Job 41, x: COMPLETED, exit code 0:0.\n")
    page = page_of(job)
    assert rows_of(page, "In the queue") == [
        ("41", "REQUEUED", "30 s", "10 min 1 s", "2026-11-28 10:00:30"),
        ("41", "COMPLETED", "4 min 29 s", "5 min 1 s", "2026-11-28 10:15:00"),
    ]
    assert rows_of(page, "Starts") == [
        ("0", "2026-11-28 10:00:30", "n[1-2]",
         "75, stopped with a checkpoint, to be started again"),
        ("1", "2026-11-28 10:15:00", "n[2-3]", "0, done"),
    ]  # fmt: skip
    headings = [section.heading for section in page.sections]
    assert headings[2:] == [
        "Run r1/runs/text-001", "Settings and results", "Steps", "What bounds it",
        "The end of x-41.log",
    ]  # fmt: skip
    assert page.missing == ["run r1/runs/text-001: use, memory, power and clocks of the devices:"
                            " run with --monitor"]  # fmt: skip
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
        "none was written: it was killed, or still runs"
    )


def test_the_tasks_of_an_array_are_starts_of_their_own(job):
    for task in (0, 10, 2):
        (job / f"exit-code.t{task}.r0").write_text("1\n")
    names = [row[0] for row in rows_of(page_of(job), "Starts")]
    assert names == ["0", "task 0 0", "1", "task 2 0", "task 10 0"]


# --- Parts --------------------------------------------------------------------------------------


def test_a_folder_that_is_neither_is_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "holds neither a run (config.json) nor a job (job.json)" in capsys.readouterr().err
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "exit-code.r0").write_text("0")
    with pytest.raises(BadInput, match="is not named NAME-JOBID"):
        page_of(odd)
    with pytest.raises(BadInput, match="cannot be written"):
        write(Page("a", "b"), odd / "exit-code.r0" / "page.html")


def test_markup_in_what_was_recorded_stays_text(tmp_path):
    page = Page("<b>bold</b>", 'a "quoted" & end', [Section("<i>", ["<script>x</script>"])])
    assert "<script>x</script>" in read(write(page, tmp_path / "p.html")).text


def test_many_points_are_thinned_to_the_first_the_last_and_some_between():
    points = [(k, float(k)) for k in range(10_001)]
    thin = figures.thinned(points, 800)
    assert thin[0] == points[0] and thin[-1] == points[-1] and 700 < len(thin) <= 800
    assert figures.thinned(points[:5], 800) == points[:5]
    assert figures.thinned(points[:1], 1) == points[:1]


def test_a_figure_is_the_same_bytes_every_time():
    made = [figures.lines("c", "x", "y", {"a": [(0, 1), (1, 2)]}).image for _ in range(2)]
    assert made[0] == made[1]
    svg = base64.b64decode(made[0].split(",")[1]).decode()
    assert "<text" in svg  # letters stay letters


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_durations_are_spelled_for_people(seconds, text):
    assert spelled(seconds) == text
