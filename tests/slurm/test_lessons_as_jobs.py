"""Lessons as jobs on a real Slurm of two nodes: how each of them ends, and what it leaves."""

import json
from pathlib import Path
from typing import Any

import pytest
from mini_cluster import SLOW_STEPS, Slurm, steps

from dtlib.learn import source
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
STEPS = 40  # of a fifth of a second each: the run is stopped long before its end
SMALL = ("-p", "global_batch=8", "-p", "num_samples=64")


def executed(slurm: Slurm, number: str) -> dict[str, Any]:
    """The one notebook that a job left."""
    (path,) = slurm.made(number).rglob("*.ipynb")
    return json.loads(path.read_text())


def texts(notebook: dict[str, Any]) -> str:
    return json.dumps([cell.get("outputs") for cell in notebook["cells"]])


@pytest.mark.timeout(600)
def test_lesson_09_trains_on_two_nodes(slurm: Slurm) -> None:
    out = slurm.folder / "run"
    number = slurm.submit("09", "--nodes=2", "-p", f"out={out}", *SMALL)
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    assert slurm.exit_codes(number) == ["0"]
    assert unfinished(executed(slurm, number)) is None
    assert steps(out) == list(range(1, 21))
    spanned_both_nodes(out, number, starts=1)


@pytest.mark.timeout(600)
def test_what_lesson_09_trains_is_requeued_and_goes_on(slurm: Slurm) -> None:
    out = slurm.folder / "run"
    found = slurm.lesson(*training_of_lesson_09(out))
    number = slurm.submit("80", "--nodes=2", **found, **SLOW_STEPS)
    slurm.until(lambda: steps(out), number)
    slurm.run("scancel", "--batch", "--signal=USR1", number)
    slurm.until(lambda: (slurm.made(number) / "exit-code.r0").exists(), number)
    first = steps(out)
    assert 0 < len(first) < STEPS
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    assert slurm.exit_codes(number) == ["75", "0"]
    stopped, whole = (json.loads(path.read_text()) for path in notebooks(slurm, number))
    assert unfinished(stopped) is not None and unfinished(whole) is None
    assert f"Resuming {out} after step {len(first)}" in texts(whole)
    assert steps(out) == list(range(1, STEPS + 1))
    spanned_both_nodes(out, number, starts=2)
    was_collected(slurm, number)


def training_of_lesson_09(out: Path) -> list[str]:
    """Its own cells, with other parameters: the training, and what it says of the run."""
    cells = [cell.text for cell in source.find("09").cells if cell.kind == "code"]
    first = next(place for place, text in enumerate(cells) if "dtlib.train(" in text)
    (parameters,) = (text for text in cells if text.startswith("ranks = None\n"))
    place = "\n".join(f"    {str(out)[k : k + 60]!r}" for k in range(0, len(str(out)), 60))
    others = f"steps, global_batch, num_samples = {STEPS}, 8, 64\nout = (\n{place}\n)"
    start = 'import dtlib\nfrom dtlib import learn\nlearn.start("80")'
    return [start, parameters, others, *cells[first : first + 2]]


def spanned_both_nodes(run: Path, number: str, starts: int) -> None:
    summary = json.loads((run / "summary.json").read_text())
    found = {name: summary[name] for name in ("nodes", "world_size", "job_id", "restart_count")}
    assert found == {"nodes": 2, "world_size": 2, "job_id": number, "restart_count": starts - 1}
    for rank, node in enumerate(("n1", "n2")):
        log = (run / f"rank{rank}.log").read_text()
        assert log.count(f" on {node}, rank {rank} of 2\n") == starts


def was_collected(slurm: Slurm, number: str) -> None:
    table = slurm.dtlib("batch", "status", "--out=batch")
    assert f"{number}  80     2      COMPLETED   0:0" in table
    slurm.dtlib("batch", "collect", "--out=batch")
    assert sorted(path.name for path in slurm.folder.glob("batch/collected/*.ipynb")) == [
        f"80_lesson80-student-job{number}-r{restart}.ipynb" for restart in (0, 1)
    ]


def test_ranks_of_a_cell_are_on_all_nodes(slurm: Slurm) -> None:
    found = slurm.lesson(HOSTS)
    number = slurm.submit("80", "--nodes=2", "--gpus-per-node=2", **found)
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    said = texts(executed(slurm, number))
    assert "ranks on ['n1', 'n1', 'n2', 'n2']" in said
    assert "[rank 3] I run on n2" in said


def test_a_failing_cell_fails_the_job_and_keeps_the_notebook(slurm: Slurm) -> None:
    found = slurm.lesson("print('first')", "1 / 0", "print('never')")
    number = slurm.submit("80", "--nodes=2", **found)
    assert slurm.waited(number) == "FAILED 1:0"
    assert "cell 4: ZeroDivisionError: division by zero" in slurm.log(number)
    said = texts(executed(slurm, number))
    assert "first" in said and "ZeroDivisionError" in said and "never" not in said


def test_a_dead_kernel_fails_the_job(slurm: Slurm) -> None:
    found = slurm.lesson("print('first')", "import os; os.kill(os.getpid(), 9)")
    number = slurm.submit("80", **found)
    assert slurm.waited(number) == "FAILED 1:0"
    assert "the kernel died" in slurm.log(number)
    assert "first" in texts(executed(slurm, number))


def test_a_cancelled_job_leaves_its_finished_cells_and_no_process(slurm: Slurm) -> None:
    found = slurm.lesson("print('first')", SLEEP)
    number = slurm.submit("80", "--nodes=2", **found)

    slurm.until(lambda: len(list(slurm.made(number).glob("work/student/n[12]"))) == 2, number)
    assert len(slurm.processes(number)) > 4
    slurm.run("scancel", number)
    assert slurm.waited(number).startswith("CANCELLED")
    slurm.until(lambda: not slurm.processes(number))
    assert "first" in texts(executed(slurm, number))


def test_a_loopback_address_is_refused_in_a_sentence(slurm: Slurm) -> None:
    found = slurm.lesson(HOSTS)
    number = slurm.submit("80", "--nodes=2", MASTER_ADDR="127.0.0.1", **found)
    assert slurm.waited(number) == "FAILED 1:0"
    assert "BadInput: MASTER_ADDR=127.0.0.1 is a loopback address: on it each host" in slurm.log(
        number
    )


def notebooks(slurm: Slurm, number: str) -> list[Path]:
    """The notebook of each start of a job."""
    return sorted(slurm.made(number).glob("r[01]/student/*.ipynb"))


# Of a job that asks for more memory than a node has, Slurm may say nothing, and let it wait.
ONE_EACH = {"DTLIB_CPUS_PER_GPU": "1", "DTLIB_GB_PER_GPU": "1"}


def test_what_would_fail_in_the_job_is_refused_before_it(slurm: Slurm) -> None:
    for words, says in [
        (["00", "-p", "step=3"], "lesson 00 has no parameter 'step'"),
        (["77"], "there is no lesson 77"),
        (["00", "--gpus-per-node=3"], "sbatch refused the job"),
    ]:
        said = slurm.dtlib("batch", "submit", *words, "--out=batch", check=False, **ONE_EACH)
        assert says in said and "Traceback" not in said
    assert slurm.run("squeue", "-h") == ""
