"""Lesson 17 says what is true: its predictions, its record, the published table it takes apart."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dtlib.learn import source
from dtlib.learn.recorded import ABOUT, recorded
from dtlib.sim.states import model_states
from dtlib.strategies.deepspeed_config import BATCH, resolve_batch
from tests.prediction_cases import right_options

from .exercises import batch_fields, gains, held

LESSON = source.find("17")
ROOT = Path(__file__).parents[2]
WITHOUT = ROOT / "tests/fixtures/no_deepspeed"
HIDDEN = {**os.environ, "PYTHONPATH": f"{WITHOUT}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("largest_gain", "the precision", "the precision"),
        ("largest_gain", "none", "none"),
        ("sharding_alone", 2.4, "twice as fast, or more"),
        ("sharding_alone", 1.3, "somewhat faster"),
        ("sharding_alone", 1.0, "about as fast"),
        ("sharding_alone", 0.86, "slower"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("17", key, value) == [right]


def test_the_record_holds_all_that_the_lesson_shows_and_says_on_what_it_was_measured():
    record = recorded("17_deepspeed")
    assert set(record) == {
        "losses", "torchrun", "held", "ablation", "patient", "mended", "look"
    }  # fmt: skip
    assert all(record.about[key] for key in ABOUT)
    assert "deepspeed" in record.about["versions"]
    for name in record:
        assert f'found["{name}"]' in LESSON.text, name
    assert len(record["ablation"]) == 6 and record["mended"] == ["accepted"]
    assert record["ablation"][5]["bytes"] == record["ablation"][0]["bytes"]  # torch alone
    assert "fsdp" in record["held"][1]


def test_the_record_names_no_machine_and_no_folder():
    text = (LESSON.room / "records/17_deepspeed.json").read_text()
    assert not any(word in text for word in ("/tmp/", "/work", "/home/", "/root"))


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_a_rank_holds_what_the_course_says(stage, precision):
    device = model_states(1200, 4, f"zero{stage}", precision)["device"]
    names = ("parameters", "gradients", "optimizer", "fp32_copy")
    found = held.held(1200, 4, stage, precision == "mixed")
    assert [found[kind] for kind in held.KINDS] == [device[name] for name in names]


def test_fields_are_those_of_a_run_of_strategy_zero():
    for _, (n, given), *misfit in batch_fields.EXERCISE.cases:
        if not misfit:
            plan = resolve_batch({k: v for k, v in zip(BATCH, given, strict=True) if v}, n)
            found = plan.global_batch, plan.micro_batch, plan.accumulation
            assert batch_fields.batch_fields(n, *given) == found


def test_the_patients_fields_are_refused_and_mended_as_the_lesson_says():
    with pytest.raises(ValueError, match="16"):
        batch_fields.batch_fields(1, 16, 4, 1)
    assert batch_fields.batch_fields(1, train=16, micro=4) == (16, 4, 4)
    assert batch_fields.batch_fields(4, 16, 4, 1) == (16, 4, 1)


def test_the_recorded_ablation_tells_the_lessons_story():
    runs = [
        gains.run(second, *changed)
        for changed, result in zip(
            [(), ("precision",), ("optimizer",), ("stage",), gains.FACTORS],
            recorded("17_deepspeed")["ablation"][:5],
            strict=True,
        )
        for second in result["seconds"]
    ]
    found = gains.gains(runs)
    assert found["precision"] > 1 > found["stage"]


def test_deepspeed_is_hidden_by_the_folder_of_this_test():
    asked = "import importlib.util as u; print(u.find_spec('deepspeed'), u.find_spec('json').name)"
    env = {**os.environ, "PYTHONPATH": str(WITHOUT)}
    said = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["None", "json"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_deepspeed_the_lesson_shows_the_record_and_reaches_its_end(tmp_path):
    command = [sys.executable, "-m", "dtlib", "lessons", "run", "17", "--kind", "student"]
    subprocess.run([*command, "--out", tmp_path], env=HIDDEN, check=True, cwd=ROOT, timeout=380)
    notebook = json.loads((tmp_path / "student" / f"{LESSON.stem}.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    everything = json.dumps(outputs)
    assert "DeepSpeed is not installed" in everything and "Recorded results." in everything
    plain = "".join("".join(o.get("data", {}).get("text/plain", "")) for o in outputs)
    assert plain.count("is not written yet") == 4


ACCEPTED = """
from dtlib.learn import ladder, source
from dtlib.learn.verdicts import Passed
lesson = source.find("17")
for name in lesson.sidecar["mistakes"]:
    exercise = ladder.find_exercise(lesson, name)
    verdict = ladder.judge(lesson, name, exercise, exercise.reference)
    print(name, isinstance(verdict, Passed))
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_deepspeed_every_check_accepts_the_solution():
    said = subprocess.run(
        [sys.executable, "-c", ACCEPTED], env=HIDDEN, cwd=ROOT, timeout=380,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = list(LESSON.sidecar["mistakes"])
    assert said.stdout.splitlines() == [f"{name} True" for name in names] and len(names) == 4
