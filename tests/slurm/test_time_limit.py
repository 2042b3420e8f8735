"""Jobs whose time is up: they save, are requeued, go on, and end with the bits of a whole run.

The first start is given too little time while it trains. Slurm then does what it does on any
cluster: SIGUSR1 to the batch script, two minutes or less before the limit.
"""

import json
from pathlib import Path

import pytest
from mini_cluster import SLOW_STEPS, Slurm, steps
from saved_checkpoints import assert_same_bits, final_weights

from dtlib.lessons.notebook import unfinished

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
STEPS = 240  # of a fifth of a second each: more than Slurm's half minute between two looks
SETTINGS = {"steps": STEPS, "global_batch": 4, "max_length": 8, "num_samples": 64,
            "deterministic": True, "timeout": 120}  # fmt: skip
FLAGS = [
    f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}")
    for key, value in SETTINGS.items()
]


def minutes(slurm: Slurm, number: str) -> int:
    """Whole minutes that a job has run."""
    clock = slurm.run("squeue", "-h", "-j", number, "-o", "%M").strip().split(":")
    return int(clock[-2]) + 60 * sum(map(int, clock[:-2]))


def shorten(slurm: Slurm, number: str, run: Path) -> None:
    """Once it trains, give a job no more than the minute that it is in, and a further one."""
    slurm.until(lambda: steps(run), number)
    limit = minutes(slurm, number) + 2
    slurm.run("scontrol", "update", f"JobId={number}", f"TimeLimit={limit}")


def lengthen(slurm: Slurm, number: str) -> None:
    """Give its next start the time that it needs."""
    slurm.until(lambda: slurm.exit_codes(number), number)
    slurm.until(lambda: slurm.state(number).startswith("PENDING"), number)
    slurm.run("scontrol", "update", f"JobId={number}", "TimeLimit=30")


@pytest.fixture(scope="module")
def jobs(cluster: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of three runs of the same settings; two of them ran into their time limit."""
    slurm = Slurm(tmp_path_factory.mktemp("limit"), cluster)
    inside = slurm.folder / "inside"
    cells = ["import dtlib\nsettings = {}"]
    cells += [f"settings[{key!r}] = {value!r}" for key, value in SETTINGS.items()]
    cells.append(f"settings['out'] = (\n    {str(inside)!r}\n)")
    cells.append("run = dtlib.train('text', ranks=2, resume=True, **settings)")
    found = slurm.lesson(*cells, "print('ended after', run.summary['steps'])")
    lesson = slurm.submit("80", **found, **SLOW_STEPS)
    plain = slurm.script("ddp_baseline.sbatch", "text", *FLAGS, **SLOW_STEPS)
    runs = {lesson: inside, plain: slurm.folder / f"batch/dtlib-ddp-{plain}/run"}
    for number, run in runs.items():
        shorten(slurm, number, run)
    for number in runs:
        lengthen(slurm, number)
    whole = slurm.folder / "whole"
    slurm.dtlib("train", "text", *FLAGS, "--ranks=2", f"--out={whole}")
    for number in runs:
        assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
        assert slurm.exit_codes(number) == ["75", "0"], slurm.log(number)
        slurm.until(lambda number=number: not slurm.processes(number))
    return {"whole": whole, "plain": runs[plain], "lesson": inside, "job": slurm.made(lesson)}


@pytest.mark.parametrize("name", ["plain", "lesson"])
def test_it_ends_with_the_weights_of_an_uninterrupted_run(jobs: dict[str, Path], name: str) -> None:
    assert json.loads((jobs[name] / "summary.json").read_text())["restart_count"] == 1
    assert steps(jobs[name]) == list(range(1, STEPS + 1))
    assert_same_bits(final_weights(jobs[name], STEPS), final_weights(jobs["whole"], STEPS))


def test_each_start_of_a_lesson_leaves_its_notebook(jobs: dict[str, Path]) -> None:
    stopped, whole = (
        json.loads(next((jobs["job"] / start).rglob("*.ipynb")).read_text())
        for start in ("r0", "r1")
    )
    assert unfinished(stopped) is not None and unfinished(whole) is None
    assert f"ended after {STEPS}" in json.dumps(whole["cells"][-1]["outputs"])
