"""Every check refuses each wrong answer of its bank in a sentence of its own, and accepts the rest.

A test is an exercise, so that they can run in any order and on any worker.
"""

import ast
import dataclasses
import re
from collections.abc import Iterator

import banks
import cloudpickle
import pytest

from dtlib.learn import source
from dtlib.learn.ladder import find_exercise
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.verdicts import COMMON, Verdict, Wrong, sentence

ALL = banks.banks()
# Each on whichever worker is free: with its ranks it takes the longest of a lesson's tests.
SPREAD = [pytest.param(bank, marks=pytest.mark.spread) for bank in ALL]


@pytest.fixture(autouse=True, scope="module")
def by_value() -> Iterator[None]:
    """Send the answers as a notebook would: their modules are not there on the ranks."""
    for module in banks.MODULES:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in banks.MODULES:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize("bank", SPREAD, ids=map(str, ALL))
def test_a_bank(bank: banks.Bank) -> None:
    """All of it, and all that is wrong: one row does not hide the next."""
    faults, texts = [], {}
    for place, (row, verdict) in enumerate(bank.verdicts()):
        found = fault(bank, row, verdict)
        if found is None and row.known:
            text = told(bank, verdict)
            other = texts.setdefault(text, row.key)
            found = None if other == row.key else f"also said of {other}: {text}"
        if found is not None:
            faults.append(f"{place}. {row.key or 'right'}, {row.answer.__name__}: {found}")
    assert not faults, "\n".join([f"{bank}:", *faults])


def fault(bank: banks.Bank, row: banks.Row, verdict: Verdict) -> str | None:
    """What is wrong with the verdict on an answer, or None."""
    if not row.key or not isinstance(verdict, Wrong):
        right = not row.key and banks.named(verdict) == "passed"
        return None if right else banks.named(verdict)
    if verdict.mistake != row.key or not (verdict.case or row.key in COMMON):
        return banks.named(verdict)
    text = told(bank, verdict)
    if not text.endswith("?") or "False" in text or re.search(r"\{\w+\}", text):
        return f"not a sentence with a question: {text}"
    if last_line_of_the_solution(bank.lesson, bank.exercise) in text:
        return f"gives the solution away: {text}"
    return None


def told(bank: banks.Bank, verdict: Verdict) -> str:
    """The sentence that a student reads."""
    assert isinstance(verdict, Wrong)
    return sentence(bank.lesson.sidecar, bank.exercise, verdict)


def last_line_of_the_solution(lesson: source.Lesson, exercise: str) -> str:
    function = ast.parse(lesson.definition(exercise) or "").body[-1]
    assert isinstance(function, ast.FunctionDef)
    return ast.unparse(function.body[-1])


def test_a_bank_on_ranks_tells_a_stub_as_a_check_does() -> None:
    bank = next(bank for bank in ALL if isinstance(bank.check, RankAnswer))
    rows = [banks.Row("none", lambda x: None), banks.Row("not_a_function", 3)]  # type: ignore[arg-type]
    found = [v for _, v in dataclasses.replace(bank, rows=rows).verdicts()]
    assert banks.named(found[0]) == "stub"
    assert isinstance(found[1], Wrong) and found[1].mistake == "not_a_function"


@pytest.mark.parametrize("bank", ALL, ids=str)
def test_a_bank_has_five_wrong_answers_and_two_right_ones(bank: banks.Bank) -> None:
    assert sum(bool(row.key) for row in bank.rows) >= 5
    assert sum(not row.key for row in bank.rows) >= 3  # the course's own among them


@pytest.mark.parametrize("bank", ALL, ids=str)
def test_whatever_an_exercise_may_tell_has_its_sentence(bank: banks.Bank) -> None:
    exercise = find_exercise(bank.lesson, bank.exercise)
    assert exercise.keys <= {*bank.lesson.sidecar["mistakes"][bank.exercise], *COMMON}


@pytest.mark.parametrize("bank", ALL, ids=str)
def test_every_sentence_has_its_answer_in_the_bank(bank: banks.Bank) -> None:
    """Exercises of a lesson may share a sentence; an answer to one of them is enough."""
    mistakes = bank.lesson.sidecar["mistakes"]
    said = {
        mistakes[other.exercise].get(row.key)
        for other in ALL
        if other.lesson.number == bank.lesson.number
        for row in other.rows
    }
    own = mistakes[bank.exercise].items()
    assert {key for key, text in own if key not in COMMON and text not in said} == bank.rare


def test_every_lesson_with_exercises_has_a_bank_and_a_ladder() -> None:
    numbers = {lesson.number for lesson in source.lessons() if lesson.sidecar.get("mistakes")}
    assert {bank.lesson.number for bank in ALL} == numbers
    assert {bank.lesson.number for bank in ALL if bank.ladder} == numbers
