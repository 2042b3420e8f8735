"""When a batch script requeues its job, and when it ends it since nothing is gained any more."""

import shutil
from pathlib import Path

import pytest
import torch
from processes import run

from dtlib.ranks.dist import World
from dtlib.training.record import RunFiles

ROOT = Path(__file__).parents[2]


class Job:
    """Starts of one job: each ends with an exit code in the folder that the last one left."""

    def __init__(self, folder: Path, task: str = "") -> None:
        self.out, self.task, self.starts = folder / "out" / "study-7", task, 0
        self.programs = folder / "bin"
        self.programs.mkdir()
        (self.programs / "scontrol").write_text('#!/bin/sh\necho "scontrol $*"\n')
        (self.programs / "scontrol").chmod(0o755)

    def run(self, name: str, text: str) -> None:
        """A run in the job's folder: done, or stopped after some step."""
        folder = self.out / "run" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("requeue" if text else "summary.json")).write_text(text)

    def start(self, code: int = 75, end: str = "finish_gaining") -> tuple[int, bool, str]:
        """Its exit code, whether it was requeued, and what it said of errors."""
        env = {"PATH": f"{self.programs}:/usr/bin:/bin", "DTLIB_HOME": str(ROOT),
               "DTLIB_SITE": "none", "DTLIB_BATCH_OUT": str(self.out.parent), "SLURM_JOB_ID": "7",
               "SLURM_JOB_CPUS_PER_NODE": "1", "SLURM_JOB_NAME": "study",
               "SLURM_JOB_NODELIST": "n1", "SLURM_RESTART_COUNT": str(self.starts)}  # fmt: skip
        if self.task:
            env |= {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": self.task}
        bash = shutil.which("bash") or "bash"
        script = f'. "{ROOT}/slurm/common.sh"; code={code}; {end} {code}'
        words = ["-c", script] if end != "lesson" else [f"{ROOT}/slurm/lesson.sbatch", "27"]
        env["DTLIB_PYTHON"] = str(self.programs / "python")
        done = run(bash, *words, env=env, timeout=30)
        named = f"exit-code{'.t' + self.task if self.task else ''}.r{self.starts}"
        assert (self.out / named).read_text() == f"{done.returncode}\n"
        self.starts += 1
        number = "7_" + self.task if self.task else "7"
        return done.returncode, f"scontrol requeue {number}\n" in done.stdout, done.stderr


@pytest.mark.parametrize("task", ["", "3"])
def test_a_job_that_gains_nothing_ends_with_a_sentence(tmp_path: Path, task: str) -> None:
    job = Job(tmp_path, task)
    job.run("a", "stopped after step 12\n")
    assert job.start()[:2] == (75, True)
    job.run("a", "stopped after step 40\n")  # a step is gained
    assert job.start()[:2] == (75, True)
    code, requeued, said = job.start()  # none
    assert (code, requeued) == (1, False)
    assert "this start gained no step and no run, so the job is not requeued: give it more" in said


def test_a_run_that_is_done_is_a_gain(tmp_path: Path) -> None:
    """A study: the next run was stopped after the same step as the one before."""
    job = Job(tmp_path)
    job.run("a", "stopped after step 12\n")
    assert job.start()[:2] == (75, True)
    (job.out / "run" / "a" / "requeue").unlink()
    job.run("a", "")
    job.run("b", "stopped after step 12\n")
    assert job.start()[:2] == (75, True)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_other_ends_are_left_alone(tmp_path: Path, code: int) -> None:
    job = Job(tmp_path)
    job.run("a", "stopped after step 12\n")
    assert [job.start(code) for _ in range(2)] == [(code, False, "")] * 2


def test_files_that_vanish_while_it_looks_end_no_job(tmp_path: Path) -> None:
    job = Job(tmp_path)
    find = job.programs / "find"
    find.write_text('#!/bin/sh\n/usr/bin/find "$@"\nexit 1\n')
    find.chmod(0o755)
    job.run("a", "stopped after step 12\n")
    assert job.start()[:2] == (75, True)


def test_a_start_that_ends_before_its_run_is_not_taken_for_the_last_one(tmp_path: Path) -> None:
    job = Job(tmp_path)
    (job.out / "run").mkdir(parents=True)
    (job.out / "run" / "requeue").write_text("stopped after step 12\n")
    assert job.start(127, "finish_run")[:2] == (127, False)


def test_the_same_name_in_two_studies_is_two_runs(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.run("strong/ranks1", "")
    job.run("weak/ranks1", "stopped after step 12\n")
    assert job.start()[:2] == (75, True)
    (job.out / "run" / "weak" / "ranks1" / "requeue").unlink()
    job.run("weak/ranks1", "")
    assert job.start()[:2] == (75, True)
    assert job.start()[:2] == (1, False)


def test_only_further_than_ever_is_a_gain(tmp_path: Path) -> None:
    """A run that begins anew in every start is stopped a little earlier or later each time."""
    job = Job(tmp_path)
    job.run("a", "stopped after step 14\n")
    assert job.start()[:2] == (75, True)
    job.run("a", "stopped after step 9\n")
    assert job.start()[:2] == (1, False)


class Record:
    """The run of a lesson, as its rank 0 notes that it was stopped."""

    def __init__(self, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DTLIB_STOPPED", str(job.out / "stopped"))
        job.out.mkdir(parents=True)

    def stopped(self, folder: Path, step: int) -> None:
        world = World(0, 0, 1, 1, torch.device("cpu"), None)
        RunFiles(folder, {}, world).requeue(step)


def test_a_lesson_gains_by_a_run_that_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, elsewhere = Job(tmp_path), tmp_path / "my runs" / "a"
    record = Record(job, monkeypatch)
    for step in (12, 40):
        record.stopped(elsewhere, step)
        assert job.start()[:2] == (75, True)
    record.stopped(elsewhere, 40)
    code, requeued, said = job.start()
    assert (code, requeued) == (1, False) and "gained no step and no run" in said


def test_a_lesson_gains_nothing_by_a_run_that_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path)
    record = Record(job, monkeypatch)
    for number, ends in ((1, (75, True)), (2, (1, False))):
        record.stopped(job.out / f"work/student/runs/text-ddp-{number:03d}", 12 + number)
        assert job.start()[:2] == ends


LESSON = """#!/bin/bash
while [ "$1" != --work ]; do shift; done
runs=$2/student/studies/strong
mkdir -p "$runs"
done=$(ls "$runs" | wc -l)
[ "$done" -lt %s ] || exit %s
mkdir "$runs/ranks$((done + 1))"
touch "$runs/ranks$((done + 1))/summary.json"
exit 75
"""


@pytest.mark.parametrize(
    ("runs", "last", "codes"), [(2, 0, [75, 75, 0]), (1, 75, [75, 1]), (0, 1, [1])]
)
def test_a_study_in_a_lessons_job_goes_on_and_the_job_ends(
    tmp_path: Path, runs: int, last: int, codes: list[int]
) -> None:
    """The lesson carries out one run of its study in each start, and then ends, or gains none."""
    job = Job(tmp_path)
    (job.programs / "python").write_text(LESSON % (runs, last))
    (job.programs / "python").chmod(0o755)
    assert [job.start(end="lesson")[0] for _ in codes] == codes
