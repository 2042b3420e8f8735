"""When a batch script requeues its job, and when it ends it since nothing is gained any more."""

import shutil
from pathlib import Path

import pytest
from processes import run

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
        done = run(bash, "-c", script, env=env, timeout=30)
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


def test_a_lesson_whose_runs_lie_elsewhere_goes_on(tmp_path: Path) -> None:
    job = Job(tmp_path)
    assert [job.start(end="finish")[:2] for _ in range(3)] == [(75, True)] * 3
