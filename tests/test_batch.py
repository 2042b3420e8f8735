"""`dtlib batch` with programs in Slurm's place; the real one is in tests/slurm."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from lesson_sources import write

from dtlib import batch
from dtlib.cli import main

SBATCH = """#!/bin/bash
printf '%s\\n' "$@" >"$HERE/arguments"
env >"$HERE/environment"
[ -z "$REFUSE" ] || { echo "sbatch: error: $REFUSE" >&2; exit 1; }
echo "41;cluster"
"""
SCONTROL = """#!/bin/bash
[ -f "$HERE/state" ] || exit 1
echo "JobId=41 JobName=x $(cat "$HERE/state") Reason=None"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lesson 80, where sbatch and scontrol are scripts."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("scontrol", SCONTROL), ("sacct", "#!/bin/bash\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    write(tmp_path / "lessons_src", "80", "print(speed)")
    (tmp_path / "site.env").write_text("SBATCH_ACCOUNT=mine\n")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setenv("DTLIB_SITE", str(tmp_path / "site.env"))
    monkeypatch.setenv("DTLIB_LESSONS", str(tmp_path / "lessons_src"))
    monkeypatch.delenv("DTLIB_BATCH_OUT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_submit_hands_all_of_it_to_sbatch(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "submit 80 --nodes 2 --gpus-per-node 4 --time 1:00 -p speed=3 -- --exclusive"
    assert main(["batch", *words.split()]) == 0
    arguments = (place / "arguments").read_text().splitlines()
    at = next(i for i, word in enumerate(arguments) if word.endswith("slurm/lesson.sbatch"))
    assert {"--nodes=2", "--gpus-per-node=4", "--time=1:00", "--exclusive"} <= set(arguments[:at])
    assert arguments[at + 1 :] == ["80", "--kind", "student", "-p", "speed=3"]
    environment = (place / "environment").read_text()
    assert "SBATCH_ACCOUNT=mine" in environment
    assert f"DTLIB_BATCH_OUT={place / 'batch'}" in environment
    assert "Job 41: lesson 80 on 2 nodes" in capsys.readouterr().out
    assert json.loads((place / "batch/dtlib-80_lesson80-41/job.json").read_text())["nodes"] == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("submit 81", "there is no lesson 81"),
        ("submit 80 -p sped=3", "has no parameter 'sped'"),
        ("submit 80 --nodes 0", "--nodes 0 must be at least 1"),
        ("status -- --all", "status takes nothing after --"),
    ],
)
def test_bad_input_submits_nothing(
    place: Path, words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["batch", *words.split()]) == 2
    assert says in capsys.readouterr().err
    assert not (place / "arguments").exists()


def test_what_sbatch_refuses_is_said_in_its_words(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFUSE", "invalid partition specified: gpu")
    assert main(["batch", "submit", "80"]) == 2
    assert "sbatch refused the job: invalid partition specified: gpu." in capsys.readouterr().err
    assert batch.jobs(place / "batch") == []


def test_without_slurm_it_says_what_to_do_instead(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (place / "site.env").unlink()
    assert main(["batch", "submit", "80"]) == 69
    assert "`dtlib lessons run 80` runs it on this machine" in capsys.readouterr().err


def test_broken_site_settings_are_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "site.env").write_text("SBATCH_ACCOUNT='mine\n")
    assert main(["batch", "submit", "80"]) == 2
    assert f"the site settings {place / 'site.env'} cannot be read" in capsys.readouterr().err


def test_a_state_is_kept_when_slurm_has_forgotten(place: Path) -> None:
    assert main(["batch", "submit", "80"]) == 0
    out = place / "batch"
    (place / "state").write_text("JobState=RUNNING ExitCode=0:0")
    assert [job.state for job in batch.refreshed(out)] == ["RUNNING"]
    (place / "state").write_text("JobState=FAILED ExitCode=1:0")
    assert [job.state for job in batch.refreshed(out)] == ["FAILED"]
    (place / "state").unlink()
    (job,) = batch.refreshed(out)
    assert (job.state, job.exit_code) == ("FAILED", "1:0")


def test_the_jobs_own_files_tell_how_it_ended(place: Path) -> None:
    assert main(["batch", "submit", "80"]) == 0
    out = place / "batch"
    (out / "dtlib-80_lesson80-41/exit-code.r0").write_text("0\n")
    assert [job.state for job in batch.refreshed(out)] == ["COMPLETED"]


def test_collect_names_notebooks_by_job_and_restart(place: Path) -> None:
    assert main(["batch", "submit", "80"]) == 0
    for restart in ("r0", "r1"):
        notebook = place / f"batch/dtlib-80_lesson80-41/{restart}/student/80_lesson80.ipynb"
        notebook.parent.mkdir(parents=True)
        notebook.write_text(restart)
    assert main(["batch", "collect", "--to", "all"]) == 0
    found = {path.name: path.read_text() for path in (place / "all").glob("*.ipynb")}
    name = "80_lesson80-student-job41-{}.ipynb"
    assert found == {name.format("r0"): "r0", name.format("r1"): "r1"}
    assert list(csv.DictReader((place / "all/runs.csv").open())) == []


def test_status_without_jobs_says_how_to_make_one(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["batch", "status"]) == 0
    assert "`dtlib batch submit NN` makes one" in capsys.readouterr().out
