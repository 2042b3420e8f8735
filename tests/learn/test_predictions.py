"""Predictions: committed once, kept, shown beside the measurement, listed if sure and wrong."""

import html
import json
import re

import pytest

from dtlib import learn
from dtlib.errors import BadInput
from dtlib.learn import history, session
from dtlib.learn.predictions import _unpredicted, verdict
from dtlib.learn.widgets import PredictionForm
from dtlib.measure.noise import WITHIN, compare

pytestmark = pytest.mark.usefixtures("demo_lesson")


def form(key: str = "result") -> PredictionForm:
    return PredictionForm("90_demo", key, session.current().sidecar["predictions"][key])


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    learn.predict("result")
    learn.measured("result", 6)
    out = capsys.readouterr().out
    assert "Your prediction: What is twice 3?" in out
    assert "Measured: 6 apples. You made no prediction." in out
    assert history.runs()[0] | {"lesson": "90", "predicted": "", "measured": "6"} == {
        "lesson": "90", "what": "result", "predicted": "", "measured": "6", "unit": "apples",
        "source": "measured",
    }  # fmt: skip


def test_a_result_says_how_it_came_about(capsys: pytest.CaptureFixture[str]) -> None:
    learn.measured("result", 6, source="computed")
    assert "Computed: 6 apples. You made no prediction." in capsys.readouterr().out
    with history.change("90_demo", "predictions", "result") as entry:
        entry.update(value=5, sure=True)
    learn.measured("result", 6, source="simulated")
    assert "simulated" in capsys.readouterr().out


def test_a_page_can_judge_its_reader_s_prediction() -> None:
    spec = {"options": [{"text": "few", "when": "value < 5", "why": "Six."}, {"text": "six"}]}
    shown = _unpredicted("90_demo/result", spec, 6, "apples", None)
    outcome = json.loads(html.unescape(re.findall('data-outcome="(.*?)"', shown.markup)[0]))
    assert outcome["options"] == {"few": [False, "Six."], "six": [False, ""]}
    assert outcome["judged"] is True
    assert 'data-prediction="90_demo/result"' in shown.markup
    assert '<span class="dtlib-guess">You made no prediction.</span>' in shown.markup
    noise = compare(1.1, [1.0, 2.0])
    shown = _unpredicted("90_demo/result", {"close": 0.5}, 6.0, "s", noise)
    outcome = json.loads(html.unescape(re.findall('data-outcome="(.*?)"', shown.markup)[0]))
    assert outcome == {"value": 6.0, "unit": "s", "close": 0.5, "judged": False}


def test_a_commitment_survives_the_kernel_and_the_first_one_stands() -> None:
    first = form()
    first.answer = {"value": 5, "sure": True}
    first.answer = {"value": 6, "sure": True}
    again = form()
    assert again.answer == {"value": 5, "sure": True}
    assert "committed: 5 apples (sure)" in again.plain()


def test_prediction_and_measurement_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    form().answer = {"value": 5, "sure": True}
    learn.measured("result", 6)
    out = capsys.readouterr().out
    assert "you predicted (sure)  5  apples" in out and "measured              6  apples" in out
    assert "As predicted. You were 17% off." in out
    learn.measured("result", 60)
    assert "Not as predicted. You were 92% off." in capsys.readouterr().out
    learn.measured("result", 0.05)
    assert "Your number is 100 times the measured one." in capsys.readouterr().out
    assert [(r["predicted"], r["measured"]) for r in history.runs()] == [("5", "0.05")]


def test_take_away_lists_what_was_sure_and_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    form("result").answer = {"value": 50, "sure": True}
    form("grows").answer = {"value": "not at all", "sure": False}
    learn.measured("result", 6)
    learn.measured("grows", 2)
    capsys.readouterr()
    learn.take_away()
    out = capsys.readouterr().out
    assert "You were sure" in out and "What is twice 3?" in out
    assert "How does it grow?" not in out  # wrong, but unsure


WHEN = {"options": [{"text": "a", "when": "value > 2"}, {"text": "b", "when": "value <= 2"}]}
OPEN = {"options": [{"text": "a"}, {"text": "b"}]}


@pytest.mark.parametrize(("spec", "guess", "value", "right"), [
    ({}, 10, 8, True),  # 25 %
    ({}, 11, 8, False),
    ({"close": 0.01}, 8.1, 8, False),
    ({}, 0, 0, True),
    ({}, -8, 8, False),
    (WHEN, "a", 3, True),
    (WHEN, "b", 3, False),
    (OPEN, "a", "a", True),
    (OPEN, "a", "b", False),
    (OPEN, "c", "b", None),
    ({}, 3, "text", None),
])  # fmt: skip
def test_verdicts(spec: dict, guess: object, value: object, right: bool | None) -> None:
    assert verdict(spec, guess, value) is right


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(BadInput, match=r"no prediction 'grow'; it has result, grows"):
        learn.predict("grow")


def test_within_the_noise_nothing_is_a_result_until_a_quiet_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    form().answer = {"value": 50, "sure": True}
    busy, quiet = compare(1.2, [1.0, 1.5]), compare(1.2, [1.0, 1.01])
    learn.measured("result", 6, effect=busy)
    said = capsys.readouterr().out
    assert f"{WITHIN} result: placebo spread 1.50 times, effect 1.20 times." in said
    assert "s predicted." not in said
    assert [row["source"] for row in history.runs()] == ["measured, within the noise"]
    learn.take_away()
    said = capsys.readouterr().out
    assert "No results: result." in said and "You were sure" not in said

    learn.measured("result", 6, effect=quiet)
    learn.take_away()
    said = capsys.readouterr().out
    assert "Not as predicted." in said and "You were sure" in said
    assert WITHIN not in said and "No results" not in said
    assert [row["source"] for row in history.runs()] == ["measured"]
