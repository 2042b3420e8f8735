"""Every lesson's checks refuse each wrong answer in a sentence of its own and accept right ones."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import banks
import cloudpickle
import pytest

from dtlib.learn import source
from dtlib.learn.checking import COMMON, Passed, Wrong, sentence

WRONG, ALSO_WRONG, RIGHT = (banks.rows(name) for name in ("WRONG", "ALSO_WRONG", "RIGHT"))
EXERCISES = sorted({(row.lesson, row.exercise) for row in WRONG})
SENTENCES: dict[str, banks.Row] = {}
ACCEPTED: set[banks.Row] = set()


@pytest.fixture(autouse=True, scope="module")
def by_value() -> Iterator[None]:
    """Send the answers as a notebook would: their modules are not there on the ranks."""
    for module in banks.MODULES:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in banks.MODULES:
        cloudpickle.unregister_pickle_by_value(module)


def refused(row: banks.Row) -> str:
    """The sentence of an answer that the check must refuse under its key."""
    found = banks.verdict(row.lesson, row.exercise, row.answer)
    assert isinstance(found, Wrong), found
    assert found.mistake == row.key, found
    assert found.case or row.key in COMMON
    lesson = source.find(row.lesson)
    text = sentence(lesson.sidecar, row.exercise, found)
    assert text.endswith("?"), text
    assert "False" not in text and not re.search(r"\{\w+\}", text), text
    assert last_line_of_the_solution(lesson, row.exercise) not in text
    return text


def last_line_of_the_solution(lesson: source.Lesson, exercise: str) -> str:
    function = ast.parse(lesson.definition(exercise)).body[-1]
    assert isinstance(function, ast.FunctionDef)
    return ast.unparse(function.body[-1])


@pytest.mark.parametrize("row", WRONG, ids=str)
def test_a_wrong_answer_is_refused_with_its_own_sentence(row: banks.Row) -> None:
    text = refused(row)
    assert text not in SENTENCES, f"also said to {SENTENCES[text]}"
    SENTENCES[text] = row


@pytest.mark.parametrize("row", ALSO_WRONG, ids=str)
def test_the_same_mistake_in_other_words(row: banks.Row) -> None:
    refused(row)


@pytest.mark.parametrize("row", RIGHT, ids=str)
def test_a_right_answer_written_differently_passes(row: banks.Row) -> None:
    found = banks.verdict(row.lesson, row.exercise, row.answer)
    assert isinstance(found, Passed), found
    ACCEPTED.add(row)


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_the_courses_own_answer_passes(lesson: str, exercise: str) -> None:
    from dtlib.learn.ladder import find_exercise

    reference = find_exercise(source.find(lesson), exercise).reference
    assert isinstance(banks.verdict(lesson, exercise, reference), Passed)


@pytest.mark.parametrize(("lesson", "exercise"), EXERCISES)
def test_a_bank_has_five_wrong_answers_and_two_right_ones(lesson: str, exercise: str) -> None:
    of_it = {name: [r for r in banks.rows(name) if r[:2] == (lesson, exercise)]
             for name in ("WRONG", "ALSO_WRONG", "RIGHT")}  # fmt: skip
    assert len(of_it["WRONG"]) + len(of_it["ALSO_WRONG"]) >= 5
    assert len(of_it["RIGHT"]) >= 2


@pytest.mark.parametrize("number", banks.LESSONS)
def test_every_sentence_has_its_answer_in_the_bank(number: str) -> None:
    mistakes = source.find(number).sidecar["mistakes"]
    told = {
        mistakes[row.exercise].get(row.key) for row in WRONG + ALSO_WRONG if row.lesson == number
    }
    untold = {
        (exercise, key)
        for exercise, sentences in mistakes.items()
        for key, text in sentences.items()
        if key not in COMMON and text not in told
    }
    assert untold == banks.rare(number)


def test_every_lesson_with_exercises_has_a_bank_and_every_exercise_is_in_it() -> None:
    exercises = {
        (lesson.number, exercise)
        for lesson in source.lessons()
        for exercise in lesson.sidecar.get("mistakes") or {}
    }
    assert exercises <= {(row.lesson, row.exercise) for row in WRONG + ALSO_WRONG}


def test_the_counts_of_all_banks(capsys: pytest.CaptureFixture[str]) -> None:
    if len(SENTENCES) != len(WRONG) or len(ACCEPTED) != len(RIGHT):
        pytest.skip("not all answers were run here")
    refusals = Counter(row.lesson for row in SENTENCES.values())
    with capsys.disabled():
        print(
            f"\n{len(SENTENCES)} of {len(WRONG)} wrong answers refused, each with its own sentence,"
            f" and {len(ACCEPTED)} right ones accepted, in {len(EXERCISES)} exercises; refused by "
            "lesson: " + ", ".join(f"{number} {count}" for number, count in refusals.items())
        )
