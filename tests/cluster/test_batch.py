"""`dtlib batch` with programs in Slurm's place; the real one is in tests/slurm."""

import csv
import json
import os
from pathlib import Path

import pytest
from lesson_sources import write

from dtlib.cli import main
from dtlib.cluster import batch

SBATCH = """#!/bin/bash
printf '%s\\n' "$@" >"$HERE/arguments"
env >"$HERE/environment"
[ -z "$REFUSE" ] || { echo "sbatch: error: $REFUSE" >&2; exit 1; }
echo "41;cluster"
"""
SCONTROL = """#!/bin/bash
[ -f "$HERE/state" ] || exit 1
sed 's/^JobState/JobId=41 JobName=x &/' "$HERE/state"; echo
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


def test_submit_hands_all_of_it_to_sbatch(place, capsys):
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


def test_a_script_gets_its_own_settings(place, capsys):
    words = "submit ddp_baseline --nodes 2 images --epochs 5 --lr 0.1 -- --exclusive"
    assert main(["batch", *words.split()]) == 0
    arguments = (place / "arguments").read_text().splitlines()
    at = next(i for i, word in enumerate(arguments) if word.endswith("slurm/ddp_baseline.sbatch"))
    assert {"--nodes=2", "--exclusive", "--job-name=dtlib-ddp_baseline"} <= set(arguments[:at])
    assert f"--output={place / 'batch/%x-%j.log'}" in arguments
    assert arguments[at + 1 :] == ["images", "--epochs", "5", "--lr", "0.1"]
    assert "Job 41: ddp_baseline on 2 nodes" in capsys.readouterr().out
    assert main(["batch", "status"]) == 0
    assert "      41  ddp_baseline  2      PENDING" in capsys.readouterr().out


def test_a_script_that_says_nothing_of_nodes_asks_for_its_own(place):
    assert main(["batch", "submit", "profile_ncu.sbatch", "images"]) == 0
    assert "--nodes" not in (place / "arguments").read_text()


def test_with_a_container_the_job_takes_its_python(place):
    assert main(["batch", "submit", "80"]) == 0
    assert "DTLIB_PYTHON=" in (place / "environment").read_text()
    (place / "site.env").write_text("DTLIB_IMAGE=/shared/dtlib.sif\n")
    assert main(["batch", "submit", "80"]) == 0
    assert "DTLIB_PYTHON=" not in (place / "environment").read_text()


def array_lines(*states: str) -> str:
    """What scontrol says of an array, whose tasks count from 0."""
    return "\n".join(
        f"JobId=4{n} ArrayJobId=41 ArrayTaskId={n} JobState={state} ExitCode={code}:0 Reason=None"
        for n, (state, _, code) in enumerate(text.partition(" ") for text in states)
    )


def test_the_state_of_an_array_is_that_of_all_its_tasks(place, capsys):
    assert main(["batch", "submit", "ddp_strong_scaling", "images"]) == 0
    assert f"Its log: {place / 'batch/dtlib-ddp_strong_scaling-41_%a.log'}" in (
        capsys.readouterr().out
    )
    assert f"--output={place / 'batch/%x-%A_%a.log'}" in (place / "arguments").read_text()
    out = place / "batch"
    for states, found in [
        (["COMPLETED 0", "PENDING 0", "RUNNING 0"], ("RUNNING", "0:0", "")),
        (["FAILED 1", "COMPLETED 0", "PENDING 0"], ("PENDING", "0:0", "task 0 FAILED")),
        (["COMPLETED 0", "NODE_FAIL 1"], ("NODE_FAIL", "1:0", "task 1 NODE_FAIL")),
        (["COMPLETED 0", "COMPLETED 0"], ("COMPLETED", "0:0", "")),
    ]:
        (place / "state").write_text(array_lines(*states))
        (job,) = batch.refreshed(out)
        assert (job.state, job.exit_code, job.reason) == found


def test_the_files_of_an_array_tell_how_each_task_ended_last(place):
    assert main(["batch", "submit", "ddp_weak_scaling", "text"]) == 0
    folder = place / "batch/dtlib-ddp_weak_scaling-41"
    for seconds, (name, code) in enumerate([("t0.r0", 0), ("t12.r0", 75), ("t12.r1", 0)]):
        (folder / f"exit-code.{name}").write_text(f"{code}\n")
        os.utime(folder / f"exit-code.{name}", (seconds, seconds))
    (job,) = batch.refreshed(place / "batch")
    assert (job.state, job.exit_code) == ("COMPLETED", "0:0")


@pytest.mark.parametrize(("words", "says"), [
    ("submit 81", "there is no lesson 81"),
    ("submit 80 -p sped=3", "has no parameter 'sped'"),
    ("submit ddp_strong", "choose from a lesson's number, ddp_baseline, "),
    ("submit ddp_strong", "Did you mean 'ddp_strong_scaling'?"),
    ("submit 80 --epochs 5", "a lesson takes no '--epochs'"),
    ("submit ddp_baseline -p steps=3", "--kind and -p belong to lessons"),
    ("submit 80 --nodes 0", "--nodes must be at least 1"),
    ("status --all", "status does not know '--all'"),
    ("status -- --all", "status takes nothing after --"),
])  # fmt: skip
def test_bad_input_submits_nothing(place, words, says, capsys):
    assert main(["batch", *words.split()]) == 2
    assert says in capsys.readouterr().err
    assert not (place / "arguments").exists()


def test_what_sbatch_refuses_is_said_in_its_words(place, monkeypatch, capsys):
    monkeypatch.setenv("REFUSE", "invalid partition specified: gpu")
    assert main(["batch", "submit", "80"]) == 2
    assert "sbatch refused the job: invalid partition specified: gpu." in capsys.readouterr().err
    assert batch.jobs(place / "batch") == []


def test_without_slurm_it_says_what_to_do_instead(place, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    (place / "site.env").unlink()
    assert main(["batch", "submit", "80"]) == 69
    assert "`dtlib lessons run 80` runs it on this machine" in capsys.readouterr().err


@pytest.mark.parametrize(("site", "words", "asked"), [
    ("", "--gpus-per-node 4", {"--cpus-per-task=32", "--mem=128G"}),
    ("DTLIB_CPUS_PER_GPU=3 DTLIB_GB_PER_GPU=10", "--gpus-per-node 2",
     {"--cpus-per-task=6", "--mem=20G"}),
    ("", "--gpus-per-node 4 --cpus-per-task 5", {"--cpus-per-task=5", "--mem=128G"}),
    ("", "--nodes 2", set()),
])  # fmt: skip
def test_cpus_and_memory_follow_the_gpus(place, site, words, asked):
    (place / "site.env").write_text(site.replace(" ", "\n"))
    assert main(["batch", "submit", "80", *words.split()]) == 0
    arguments = (place / "arguments").read_text().splitlines()
    assert {word for word in arguments if word.startswith(("--cpus", "--mem"))} == asked


@pytest.mark.parametrize(("site", "says"), [
    ("DTLIB_GB_PER_GPU=64G", "DTLIB_GB_PER_GPU=64G in the site settings must be a whole"),
    ("SBATCH_ACCOUNT='mine", "the site settings {} cannot be read"),
])  # fmt: skip
def test_broken_site_settings_are_named(place, site, says, capsys):
    (place / "site.env").write_text(f"{site}\n")
    assert main(["batch", "submit", "80", "--gpus-per-node", "1"]) == 2
    assert says.format(place / "site.env") in capsys.readouterr().err


def test_a_state_is_kept_when_slurm_has_forgotten(place):
    assert main(["batch", "submit", "80"]) == 0
    out = place / "batch"
    (place / "state").write_text("JobState=RUNNING ExitCode=0:0")
    assert [job.state for job in batch.refreshed(out)] == ["RUNNING"]
    (place / "state").write_text("JobState=FAILED ExitCode=1:0")
    assert [job.state for job in batch.refreshed(out)] == ["FAILED"]
    (place / "state").unlink()
    (job,) = batch.refreshed(out)
    assert (job.state, job.exit_code) == ("FAILED", "1:0")


def test_a_job_whose_node_was_lost_may_start_again(place):
    assert main(["batch", "submit", "80"]) == 0
    for state in ("NODE_FAIL", "PENDING", "COMPLETED", "COMPLETED"):
        (place / "state").write_text(f"JobState={state} ExitCode=0:0")
        assert [job.state for job in batch.refreshed(place / "batch")] == [state]
    (place / "state").write_text("JobState=RUNNING ExitCode=0:0")  # another job of that number
    assert [job.state for job in batch.refreshed(place / "batch")] == ["COMPLETED"]


def test_the_jobs_own_files_tell_how_it_ended(place):
    assert main(["batch", "submit", "80"]) == 0
    out = place / "batch"
    (out / "dtlib-80_lesson80-41/exit-code.r0").write_text("0\n")
    assert [job.state for job in batch.refreshed(out)] == ["COMPLETED"]


def test_collect_names_notebooks_by_job_and_restart(place):
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


def test_status_without_jobs_says_how_to_make_one(place, capsys):
    assert main(["batch", "status"]) == 0
    assert "`dtlib batch submit NN` submits one" in capsys.readouterr().out
