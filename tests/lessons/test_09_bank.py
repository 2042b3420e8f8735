"""Lesson 09's checks refuse every wrong answer with its own sentence, and accept right ones."""

import bank_09_ddp
import bank_09_deal
import cloudpickle
import pytest

from dtlib.learn import checking, ladder, source

LESSON = source.find("09")
WRONG = bank_09_deal.WRONG + bank_09_ddp.WRONG
RIGHT = bank_09_deal.RIGHT + bank_09_ddp.RIGHT
SENTENCES: dict[str, str] = {}
REFUSED: list[str] = []


@pytest.fixture(autouse=True, scope="module")
def by_value():
    """Send the answers as a notebook would: their modules are not there on the ranks."""
    for bank in (bank_09_deal, bank_09_ddp):
        cloudpickle.register_pickle_by_value(bank)
    yield
    for bank in (bank_09_deal, bank_09_ddp):
        cloudpickle.unregister_pickle_by_value(bank)


def verdict(exercise, answer):
    return ladder.judge(LESSON, exercise, ladder.find_exercise(LESSON, exercise), answer)


def refused(exercise, key, answer):
    """The sentence of an answer that the check must refuse under `key`."""
    found = verdict(exercise, answer)
    assert isinstance(found, checking.Wrong), found
    assert found.mistake == key, found
    assert found.case
    text = checking.sentence(LESSON.sidecar, exercise, found)
    assert text.endswith("?"), text
    assert "False" not in text
    return text


def ids(rows):
    return [f"{row[0]}-{row[-1].__name__}" for row in rows]


@pytest.mark.parametrize(("exercise", "key", "answer"), WRONG, ids=ids(WRONG))
def test_wrong_answer_is_refused_with_its_own_sentence(exercise, key, answer):
    text = refused(exercise, key, answer)
    assert text not in SENTENCES, f"also said to {SENTENCES.get(text)}"
    SENTENCES[text] = f"{exercise} {answer.__name__}"
    REFUSED.append(exercise)


def test_all_50_are_refused(capsys):
    if len(REFUSED) != len(WRONG):
        pytest.skip("the wrong answers did not all run here")
    each = ", ".join(f"{name} {REFUSED.count(name)}" for name in dict.fromkeys(REFUSED))
    with capsys.disabled():
        print(f"\n{len(SENTENCES)} of 50 wrong answers refused, each with its own sentence: {each}")
    assert len(SENTENCES) == 50
    assert min(map(REFUSED.count, REFUSED)) >= 5


@pytest.mark.parametrize(
    ("exercise", "key", "answer"), bank_09_ddp.ALSO_WRONG, ids=ids(bank_09_ddp.ALSO_WRONG)
)
def test_the_same_mistake_in_other_words(exercise, key, answer):
    refused(exercise, key, answer)


@pytest.mark.parametrize(("exercise", "answer"), RIGHT, ids=ids(RIGHT))
def test_right_answers_written_differently(exercise, answer):
    found = verdict(exercise, answer)
    assert isinstance(found, checking.Passed), found


@pytest.mark.parametrize("exercise", sorted(LESSON.sidecar["mistakes"]))
def test_reference_and_the_lessons_own_solution_pass(exercise):
    reference = ladder.find_exercise(LESSON, exercise).reference
    assert isinstance(verdict(exercise, reference), checking.Passed)
