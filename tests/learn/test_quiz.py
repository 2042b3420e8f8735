"""The quiz: numbers drawn anew, the student's own number, a reason for every option."""

from pathlib import Path

import pytest

from dtlib import learn
from dtlib.errors import BadInput
from dtlib.learn import history
from dtlib.learn.quiz import DRAWS, drawn
from dtlib.learn.source import find
from dtlib.learn.widgets import QuizForm

FIXTURES = Path(__file__).parents[1] / "fixtures"
QUIZ = find("90", FIXTURES / "lessons_src").sidecar["quiz"]
pytestmark = pytest.mark.usefixtures("demo_lesson")


def test_a_retry_brings_other_numbers_with_their_own_answers() -> None:
    variants = drawn(QUIZ, [])[0]["variants"]
    assert [v["text"] for v in variants[:3]] == [f"What is {n} + {n}?" for n in (3, 4, 5)]
    assert len(variants) == DRAWS
    for variant, n in zip(variants, (3, 4, 5, 3), strict=True):
        right = [o for o in variant["options"] if o["right"]]
        assert [(o["text"], o["why"]) for o in right] == [(f"{2 * n}", f"{n} twice.")]
        assert all(o["why"] for o in variant["options"])


def test_the_same_sidecar_gives_the_same_quiz_with_its_output_to_read() -> None:
    assert drawn(QUIZ, []) == drawn(QUIZ, [])
    assert drawn(QUIZ, [])[1]["variants"][0]["output"] == "ZeroDivisionError: {}"


def test_the_students_own_number_else_the_stated_one() -> None:
    assert drawn(QUIZ, [])[1]["variants"][0]["text"].startswith("You measured 6.")
    for measured in ("6.5", "7.25"):
        row = {"lesson": "90", "what": "result", "measured": measured, "source": measured}
        history.add_run(row)
    assert drawn(QUIZ, history.runs())[1]["variants"][0]["text"].startswith("You measured 7.25.")
    history.add_run({"lesson": "90", "what": "result", "measured": "a word", "source": "x"})
    assert drawn(QUIZ, history.runs())[1]["variants"][0]["text"].startswith("You measured 6.")


def test_a_question_can_tell_whether_there_is_an_own_number() -> None:
    own = {"lesson": "90", "what": "result", "otherwise": 6}
    said = "{'You measured' if x_measured else 'Say that it is'} {x:g}."
    options = [{"text": "yes", "why": "so", "right": True}, {"text": "no", "why": "not so"}]
    quiz = [{"question": said, "mine": {"x": own}, "options": options}]
    assert drawn(quiz, [])[0]["variants"][0]["text"] == "Say that it is 6."
    row = {"lesson": "90", "what": "result", "measured": "6", "source": "measured"}
    assert drawn(quiz, [row])[0]["variants"][0]["text"] == "You measured 6."
    row["source"] = "measured, within the noise"  # which shows nothing that one could ask about
    assert drawn(quiz, [row])[0]["variants"][0]["text"] == "Say that it is 6."


def test_a_template_with_an_unknown_name_is_refused() -> None:
    broken = [{"question": "{m}", "options": [{"text": "x", "why": "y", "right": True}]}]
    with pytest.raises(BadInput, match="'m'"):
        drawn(broken, [])


def test_answers_are_kept_and_shown_again() -> None:
    form = QuizForm("90_demo", drawn(QUIZ, []))
    form.answers = {"sum": {"tries": 1, "right": False}}
    form.answers = {"sum": {"tries": 2, "right": True}}
    assert history.read("90_demo", "quiz", "sum") == {"tries": 2, "right": True}
    assert QuizForm("90_demo", drawn(QUIZ, [])).answers == form.answers


def test_plain_text_shows_questions_and_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    learn.start("90")
    learn.quiz()
    out = capsys.readouterr().out
    assert "Question 1. What is 3 + 3?" in out and "a) " in out and "c) " in out
    assert "twice" not in out and "Right" not in out
