"""Lesson 07's checks refuse every wrong answer with its own sentence, and accept right ones."""

import bank_07 as bank
import cloudpickle
import pytest

from dtlib.learn import checking, ladder, source

LESSON = source.find("07")
SENTENCES: dict[str, str] = {}


@pytest.fixture(autouse=True, scope="module")
def by_value():
    """Send the answers as a notebook would: their module is not there on the ranks."""
    cloudpickle.register_pickle_by_value(bank)
    yield
    cloudpickle.unregister_pickle_by_value(bank)


def verdict(exercise, answer):
    return ladder.judge(LESSON, exercise, ladder.find_exercise(LESSON, exercise), answer)


def ids(rows):
    return [f"{row[0]}-{row[-1].__name__}" for row in rows]


def read(exercise, wrong):
    """The sentence, which ends in a question and gives no code away."""
    text = checking.sentence(LESSON.sidecar, exercise, wrong)
    assert text.endswith("?"), text
    assert "False" not in text
    return text


@pytest.mark.parametrize(("exercise", "key", "answer"), bank.WRONG, ids=ids(bank.WRONG))
def test_wrong_answer_is_refused_with_its_own_sentence(exercise, key, answer):
    found = verdict(exercise, answer)
    assert isinstance(found, checking.Wrong), found
    assert found.mistake == key, found
    assert found.case
    text = read(exercise, found)
    assert text not in SENTENCES, f"also said to {SENTENCES.get(text)}"
    SENTENCES[text] = f"{exercise} {answer.__name__}"


def test_all_32_are_refused(capsys):
    if len(SENTENCES) != len(bank.WRONG):
        pytest.skip("the wrong answers did not all run here")
    with capsys.disabled():
        print(f"\n{len(SENTENCES)} of 32 wrong answers refused, each with its own sentence")
    assert len(SENTENCES) == 32


@pytest.mark.parametrize(("exercise", "key", "answer"), bank.ALSO_WRONG, ids=ids(bank.ALSO_WRONG))
def test_further_wrong_answers(exercise, key, answer):
    found = verdict(exercise, answer)
    assert isinstance(found, checking.Wrong), found
    assert found.mistake == key, found
    read(exercise, found)


@pytest.mark.parametrize(("exercise", "answer"), bank.RIGHT, ids=ids(bank.RIGHT))
def test_right_answers_written_differently(exercise, answer):
    found = verdict(exercise, answer)
    assert isinstance(found, checking.Passed), found


@pytest.mark.parametrize("exercise", sorted(LESSON.sidecar["mistakes"]))
def test_reference_passes(exercise):
    reference = ladder.find_exercise(LESSON, exercise).reference
    assert isinstance(verdict(exercise, reference), checking.Passed)
