"""Lesson 06 says what is true: its predictions, its run, its disk, its sliders."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dtlib.errors import BadInput
from dtlib.learn import session, source
from dtlib.learn.recorded import ABOUT, recorded
from tests.prediction_cases import right_options

from .disk import NEW, OLD, Disk
from .exercises.state import state_of, without
from .trainer import PARTS, Run, load, refuse_beyond
from .what_if import best, how_often, lost

LESSON = source.find("06")
ROOT = Path(__file__).parents[2]
HIDES = ROOT / "tests/fixtures/no_deepspeed"


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("torn", "nothing that loads", "nothing that loads"),
        ("protocols", 1.0, "not at all, since model, text and tokens are the same"),
        ("protocols", 1.005, "by less than 1 %"),
        ("protocols", 1.5, "by 1 % or more"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right) -> None:
    assert right_options("06", key, value) == [right]


def test_every_part_of_the_small_run_is_needed_and_together_they_are_enough() -> None:
    run = Run(40)
    run.train(17)
    saved = state_of(run)
    right = run.train(40)
    assert load(Run(40, seed=3), saved).train(40) == right
    run = Run(40)
    run.train(17)
    for part in PARTS:
        assert load(Run(40, seed=3), without(part)(run)).train(40) != right, part


def test_a_crash_leaves_what_a_disk_may_leave() -> None:
    disk = Disk({"latest.pt": OLD})
    disk.write("new", NEW)
    assert disk.moments[-1] == {OLD}
    disk.rename("new", "latest.pt")
    assert disk.moments[-1] == {OLD, NEW, NEW[: len(NEW) // 2]}
    disk.fsync("latest.pt")
    assert disk.moments[-1] == {OLD, NEW}
    disk.fsync_folder()
    assert disk.moments[-1] == {NEW}
    with pytest.raises(OSError, match="cross-device"):
        disk.rename("latest.pt", "elsewhere/latest.pt")


def test_young_s_interval_loses_the_least() -> None:
    save, failure = 30.0, 3600.0 * 39
    optimum = best(save, failure)
    assert optimum == pytest.approx(math.sqrt(2 * save * failure))
    least = sum(lost(optimum, save, failure, 600))
    assert all(sum(lost(optimum * k, save, failure, 600)) > least for k in (0.8, 0.95, 1.05, 1.3))
    told = how_often(60, 30, 10_000, 256, 10)
    assert told["point"][1] == pytest.approx(
        100 * sum(lost(3600, 30, 3600 * 10_000 / 256, 600)), 1e-3
    )
    assert "256 nodes fail every 39.1 hours" in told["says"]


def test_a_file_that_is_not_there_is_named_by_the_disk() -> None:
    disk = Disk({"latest.pt": OLD})
    for call in (disk.fsync, disk.remove, lambda name: disk.rename(name, "latest.pt")):
        with pytest.raises(FileNotFoundError, match=r"No such file.*'new'"):
            call("new")
    assert disk.acts == [] and disk.files == {"latest.pt": OLD}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"total": 9}, "total is 9"),
        ({"total": 201}, "10 to 200"),
        ({"stopped": 38}, "at most 37"),
        ({"stopped": 0}, "at least 1"),
        ({"rows": 4098}, "multiple of 4"),
        ({"steps": 0}, "1 to 500"),
    ],
)
def test_parameters_that_a_later_cell_cannot_take_are_refused(given, said) -> None:
    usual = {"total": 40, "stopped": 17, "rows": 4096, "steps": 20}
    refuse_beyond(**usual)
    with pytest.raises(BadInput, match=said):
        refuse_beyond(**(usual | given))


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")  # its first is skipped
@pytest.mark.parametrize(("total", "stopped"), [(10, 1), (10, 7), (100, 97)])
def test_each_forgotten_part_shows_at_the_bounds_of_the_parameters(total, stopped) -> None:
    refuse_beyond(total, stopped, 4096, 20)
    run = Run(total)
    run.train(stopped)
    saved = state_of(run)
    right = run.train(total)
    for part in ("sampler", "schedule", "rng", "scaler"):
        kept = {name: state for name, state in saved.items() if name != part}
        assert load(Run(total, seed=3), kept).train(total) != right, part


def test_a_power_of_two_changes_no_gradient_that_fp16_can_hold() -> None:
    """So a run without its scaler differs only by the steps that it skips."""
    run = Run(40)
    run.train(3)
    saved, found = state_of(run), []
    for scale in (2.0**12, 2.0**15):
        again = load(Run(40, seed=3), saved)
        batch = again.sampler.next()
        with torch.autocast("cpu", dtype=torch.float16):
            error = again.model(again.x[batch]) - again.y[batch]
        (error.float().square().mean() * scale).backward()
        found.append(torch.cat([w.grad.flatten() / scale for w in again.model.parameters()]))
    assert found[0].isfinite().all() and torch.equal(*found)


def test_the_record_of_s3_says_what_the_cells_print_and_names_no_machine() -> None:
    record = recorded("06_s3")
    assert set(record) == {"killed", "listed", "unfinished", "latest", "cleaned"}
    assert all(record.about[key] for key in ABOUT) and {"s3fs", "moto"} <= set(
        record.about["versions"]
    )
    assert record["latest"] == 10 and all("step-00000010" in name for name in record["listed"])
    assert all("step-00000020" in name for name in record["unfinished"])
    text = (LESSON.room / "records/06_s3.json").read_text()
    assert not any(word in text for word in ("/tmp/", "/work", "/home/", "/root"))


def test_the_first_cell_says_what_s3_needs(monkeypatch) -> None:
    find = session.importlib.util.find_spec
    monkeypatch.setitem(session._state, "lesson", LESSON)
    monkeypatch.setattr(
        session.importlib.util, "find_spec", lambda name: None if name == "s3fs" else find(name)
    )
    (said,) = session.missing()
    assert "s3fs" in said and "recorded results" in said


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_s3_s_packages_the_lesson_shows_the_record_and_reaches_its_end(tmp_path) -> None:
    path = f"{HIDES}{os.pathsep}{ROOT}"
    hidden = os.environ | {"PYTHONPATH": path, "HIDDEN_PACKAGES": "s3fs,moto,boto3"}
    command = [sys.executable, "-m", "dtlib", "lessons", "run", "06", "--kind", "student"]
    subprocess.run([*command, "--out", tmp_path], env=hidden, check=True, cwd=ROOT, timeout=380)
    notebook = json.loads((tmp_path / "student" / f"{LESSON.stem}.ipynb").read_text())
    said = json.dumps([cell.get("outputs", []) for cell in notebook["cells"]])
    assert "s3fs and moto are not both installed" in said and "Recorded results." in said
    assert "step-00000010/complete.json" in said and "unfinished: " in said
