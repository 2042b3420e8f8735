"""Lessons as jobs on a real Slurm of two nodes: how each of them ends, and what it leaves."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import lesson_sources
import pytest
from mini_cluster import Slurm

from dtlib.lessons.notebook import unfinished

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

HOSTS = """
import socket, dtlib
def where():
    print("I run on", socket.gethostname())
    return socket.gethostname()
hosts = dtlib.launch(where)
print("ranks on", hosts)
"""
SLEEP = """
import os, pathlib, time, dtlib
def sleep(folder):
    node = os.environ["SLURMD_NODENAME"]
    pathlib.Path(folder, node).touch()
    time.sleep(600)
dtlib.launch(sleep, os.getcwd())
"""
TRAIN = """
import os, dtlib
small = dict(global_batch=4, max_length=16, num_samples=64)
dtlib.train("text", steps=30, out=os.environ["RUN"], resume=True, **small)
"""


def executed(slurm: Slurm, number: str) -> dict[str, Any]:
    """The one notebook that a job left."""
    (path,) = slurm.made(number).rglob("*.ipynb")
    return json.loads(path.read_text())


def texts(notebook: dict[str, Any]) -> str:
    return json.dumps([cell.get("outputs") for cell in notebook["cells"]])


def lesson(slurm: Slurm, *cells: str) -> dict[str, str]:
    """Write a lesson 80, and return the variable with which it is found."""
    sources = slurm.folder / "lessons_src"
    lesson_sources.write(sources, "80", *cells)
    return {"DTLIB_LESSONS": str(sources)}


def test_a_lesson_runs_on_two_nodes(slurm: Slurm) -> None:
    number = slurm.submit("00", "--nodes=2", "-p", "steps=3")
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    assert unfinished(executed(slurm, number)) is None
    table = slurm.dtlib("batch", "status", "--out=batch")
    assert f"{number}  00     2      COMPLETED   0:0" in table
    slurm.dtlib("batch", "collect", "--out=batch")
    assert [path.name for path in slurm.folder.glob("batch/collected/*.ipynb")] == [
        f"00_start_here-student-job{number}-r0.ipynb"
    ]
    rows = list(csv.DictReader((slurm.folder / "batch/collected/runs.csv").open()))
    assert {(row["world_size"], row["nodes"]) for row in rows} == {("1", "1"), ("2", "2")}


def test_ranks_of_a_cell_are_on_all_nodes(slurm: Slurm) -> None:
    found = lesson(slurm, HOSTS)
    number = slurm.submit("80", "--nodes=2", "--gpus-per-node=2", **found)
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    said = texts(executed(slurm, number))
    assert "ranks on ['n1', 'n1', 'n2', 'n2']" in said
    assert "[rank 3] I run on n2" in said


def test_a_failing_cell_fails_the_job_and_keeps_the_notebook(slurm: Slurm) -> None:
    found = lesson(slurm, "print('first')", "1 / 0", "print('never')")
    number = slurm.submit("80", "--nodes=2", **found)
    assert slurm.waited(number) == "FAILED 1:0"
    assert "cell 4: ZeroDivisionError: division by zero" in slurm.log(number)
    said = texts(executed(slurm, number))
    assert "first" in said and "ZeroDivisionError" in said and "never" not in said


def test_a_dead_kernel_fails_the_job(slurm: Slurm) -> None:
    found = lesson(slurm, "print('first')", "import os; os.kill(os.getpid(), 9)")
    number = slurm.submit("80", **found)
    assert slurm.waited(number) == "FAILED 1:0"
    assert "the kernel died" in slurm.log(number)
    assert "first" in texts(executed(slurm, number))


def test_a_cancelled_job_leaves_its_finished_cells_and_no_process(slurm: Slurm) -> None:
    found = lesson(slurm, "print('first')", SLEEP)
    number = slurm.submit("80", "--nodes=2", **found)

    slurm.until(lambda: len(list(slurm.made(number).glob("r0/student/n[12]"))) == 2, number)
    assert len(slurm.processes(number)) > 4
    slurm.run("scancel", number)
    assert slurm.waited(number).startswith("CANCELLED")
    slurm.until(lambda: not slurm.processes(number))
    assert "first" in texts(executed(slurm, number))


def test_a_loopback_address_is_refused_in_a_sentence(slurm: Slurm) -> None:
    found = lesson(slurm, HOSTS)
    number = slurm.submit("80", "--nodes=2", MASTER_ADDR="127.0.0.1", **found)
    assert slurm.waited(number) == "FAILED 1:0"
    assert "BadInput: MASTER_ADDR=127.0.0.1 is on each host that host itself" in slurm.log(number)


def test_a_stopped_lesson_is_requeued_and_goes_on(slurm: Slurm) -> None:
    out = slurm.folder / "run"
    found = lesson(slurm, "from dtlib import learn\nlearn.start('80')", TRAIN)
    number = slurm.submit("80", "--nodes=2", RUN=str(out), **found)
    slurm.until(lambda: steps(out) > 0, number)
    slurm.run("scancel", "--batch", "--signal=USR1", number)
    slurm.until(lambda: (slurm.made(number) / "exit-code.r0").exists(), number)
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    codes = [(slurm.made(number) / f"exit-code.r{n}").read_text().strip() for n in (0, 1)]
    assert codes == ["75", "0"]
    assert len(list(slurm.made(number).glob("r[01]/student/*.ipynb"))) == 2
    assert steps(out) == 30


def steps(folder: Path) -> int:
    """How many different steps a run has noted."""
    lines = folder / "metrics.jsonl"
    if not lines.exists():
        return 0
    return len(
        {json.loads(line)["step"] for line in lines.read_text().splitlines() if "step" in line}
    )


def test_what_would_fail_in_the_job_is_refused_before_it(slurm: Slurm) -> None:
    for words, says in [
        (["00", "-p", "step=3"], "lesson 00 has no parameter 'step'"),
        (["77"], "there is no lesson 77"),
        (["00", "--gpus-per-node=9"], "sbatch refused the job"),
    ]:
        said = slurm.dtlib("batch", "submit", *words, "--out=batch", check=False)
        assert says in said and "Traceback" not in said
    assert slurm.run("squeue", "-h") == ""
