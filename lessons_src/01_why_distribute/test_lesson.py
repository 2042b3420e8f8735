"""Lesson 01 says what is true: its predictions, its quiz, the numbers that its prose names."""

import pytest

from dtlib.learn import source
from dtlib.learn.quiz import drawn
from dtlib.sim import hardware
from dtlib.sim import states as formulas
from tests.prediction_cases import right_options

from . import what_if as training_run
from .exercises import share, states

LESSON = source.find("01")
SIDECAR = LESSON.sidecar


@pytest.mark.parametrize("value", [0.5, 9.9, 10, 29, 30, 45, 60, 95])
def test_one_option_is_right_for_every_share(value):
    assert len(right_options("01", "share_here", value)) == 1


def test_the_lesson_measures_an_option_that_is_there():
    texts = [option["text"] for option in SIDECAR["predictions"]["fits"]["options"]]
    assert len(texts) == 4
    assert all(f'"{text}"' in LESSON.text for text in texts)


def test_the_numbers_of_the_predictions():
    assert training_run.states_gb(7e9, 0, 1) == 112
    assert 12 * 7e9 < hardware.DEVICES["a100-80"]["memory"] < 16 * 7e9
    assert round(hardware.DEVICES["a100-80"]["memory"] / 1e9, 1) == 85.9


@pytest.mark.parametrize("precision", ["mixed", "fp32"])
@pytest.mark.parametrize("optimizer", formulas.MOMENTS)
def test_the_reference_is_what_the_papers_formula_says(precision, optimizer):
    strategy = "zero1" if precision == "mixed" else "ddp"
    placed = formulas.model_states(64, 1, strategy, precision, optimizer, kept="paper")["device"]
    found = states.states_gb(64, precision, optimizer)
    assert {kind: gb * 1e9 for kind, gb in found.items()} == pytest.approx(placed)


def test_the_published_shares():
    """What the take-away calls 0.35 to 0.51."""
    shares = [
        share.mfu(176.25e9, 2048 * 2048 // 384, 1, 104.7, 312, 1)[0],
        training_run.run_mfu(13.016e9, 1e12, 135_168, 312),
        training_run.run_mfu(68.977e9, 2e12, 1_720_320, 312),
        training_run.run_mfu(405.85e9, 15.6e12, 30.84e6, 989),
        training_run.run_mfu(37e9, 14.8e12, 2.664e6, 989),
    ]
    assert shares == pytest.approx([0.354, 0.514, 0.428, 0.346, 0.346], abs=6e-4)


def test_the_quiz_agrees_with_the_formula():
    first, _, log, doubled = (question["variants"] for question in drawn(SIDECAR["quiz"], []))
    numbers = {(n, b) for n in (64, 128, 512, 256) for b in (7, 13, 30, 70)}
    for variant in first:
        right = next(o["text"] for o in variant["options"] if o["right"])
        assert right in {
            f"{training_run.training_days(b * 1e9, 2e12, n, 312, 0.3):,.0f} days"
            for n, b in numbers
        }
    for variant in log:
        assert float(variant["output"].split("MFU")[1]) > 1
        why = next(o["why"] for o in variant["options"] if o["right"])
        assert 0 < float(why.split(" is ")[1].split(". A share")[0]) < 1
    for variant in doubled:
        texts = [option["text"] for option in variant["options"]]
        assert len(set(texts)) == len(texts)
