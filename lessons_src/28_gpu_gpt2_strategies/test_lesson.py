"""Lesson 28 says what is true: predictions, published numbers, what it does without DeepSpeed."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dtlib.learn import source
from tests.prediction_cases import right_options

from . import pictures, runs
from .exercises import diagnose, fair, room
from .what_if import GPT2, computing

LESSON = source.find("28")
ROOT = Path(__file__).parents[2]
WITHOUT = ROOT / "tests/fixtures/no_deepspeed"


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("first_loss", 1.012, "ln V itself, nearly"),
        ("first_loss", 0.3, "about a third of ln V"),
        ("first_loss", 0.9, "somewhat below ln V, since some words are common"),
        ("first_loss", 1.3, "far more than ln V"),
        ("apart", 2.4e-7, "not at all, or in the last digits"),
        ("apart", 4e-3, "by a few thousandths"),
        ("apart", 0.2, "those that shard more learn worse"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("28", key, value) == [right]


def test_three_sizes_fit_24_gib_under_ddp_and_the_worked_case_is_right():
    left = [
        room.room_left(psi, computing(layers, width, heads, 4), "ddp", 4, 24)
        for _, layers, width, heads, psi in GPT2
    ]
    assert [size >= 0 for size in left] == [True, True, True, False]
    _, *shape, psi = GPT2[-1]
    assert 2 * psi / 2**30 == pytest.approx(2.9, abs=0.05)
    assert computing(*shape, 4) / 2**30 == pytest.approx(11.7, abs=0.05)


def test_published_steps_give_the_published_rates_and_an_mfu_below_one():
    (cell,) = [cell.text for cell in LESSON.cells if "PUBLISHED = [" in cell.text]
    names: dict = {"learn": SimpleNamespace(table=lambda *_: None), "runs": runs}
    exec(cell, names)
    assert [line[4] for line in names["lines"]] == pytest.approx(
        [850_000, 1_750_000, 639_000, 308_000, 374_000], rel=0.005
    )
    assert [round(line[5]) for line in names["lines"]] == [29, 60, 62, 64, 49]


def test_a_picture_says_for_every_case_whether_it_fits():
    drawn = pictures.draw_question()
    assert drawn.alt.startswith("Which GPT-2 fits on your card? Simulated for 8 cards of 8 GiB. ")
    rows = {"small": [3.0, 30.0], "large": [23.9, 24.1]}
    drawn = pictures.draw_fits(rows, ["ddp", "zero3"], 24, "two cards of 24 GiB")
    assert drawn.alt.startswith("Simulated: 2 of 4 cases fit two cards of 24 GiB. ")
    assert "large: ddp 23.9, zero3 24.1" in drawn.alt


def test_the_lessons_causes_and_settings_are_those_of_the_checks():
    namespace: dict = {}
    for name in ("SETTINGS", "CAUSES"):
        code = re.search(rf"^{name} = \[.*?\]$", LESSON.text, re.M | re.S)
        exec(code[0], namespace)
    assert tuple(namespace["SETTINGS"]) == fair.SETTINGS
    assert tuple(namespace["CAUSES"]) == diagnose.CAUSES


def test_the_first_loss_of_a_model_that_knows_nothing_is_the_logarithm_of_its_vocabulary():
    assert f"{math.log(50257):.2f}" == "10.82"
    assert math.exp(0.31) == pytest.approx(1.4, abs=0.05)


def test_no_gpu_figure_stands_where_no_record_is():
    record = LESSON.room / "records/28_gpt2.json"
    assert "No GPU results are recorded yet." in LESSON.text
    if record.exists():
        about = json.loads(record.read_text())["about"]
        assert all(about[key] for key in ("device", "versions", "date", "commit"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_deepspeed_five_rows_are_unavailable_and_the_rest_runs(tmp_path):
    env = {**os.environ, "PYTHONPATH": f"{WITHOUT}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "dtlib", "lessons", "run", "28", "--kind", "instructor"]
    subprocess.run([*command, "--out", tmp_path], env=env, check=True, cwd=ROOT, timeout=380)
    notebook = json.loads((tmp_path / "instructor" / f"{LESSON.stem}.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    text = "".join("".join(output.get("text", "")) for output in outputs)
    for name in ("zero1", "zero2", "zero3", "offload", "infinity"):
        assert f"{name}: unavailable. strategy {name} needs DeepSpeed" in text
    plain = "".join("".join(o.get("data", {}).get("text/plain", "")) for o in outputs)
    assert plain.count("✓ Passed.") == 4
