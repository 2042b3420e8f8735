"""Lesson 10 says what is true: its patients are ill, and the course's cures cure them."""

import re

import pytest

from .cases import cases, given
from .exercises.cures import KNOWN, cure, learn_all
from .exercises.loud import diagnose_loud
from .exercises.silent import diagnose_silent
from .recorded import JOB, hung
from .ward import LOUD, LOUD_KINDS, SILENT, SILENT_KINDS, program, treated
from .what_if import hang_curve


@pytest.mark.slow
def test_a_cure_changes_what_comes_out_and_no_rank_stops():
    names = (*LOUD, *SILENT)
    texts = [(name, treated(name, cure(name))) for name in names]
    learn_all([*texts, *((name, program(name)) for name in names)])
    for name, text in texts:
        ill, cured = KNOWN[name, program(name)], KNOWN[name, text]
        assert not (cured.stopped or cured.odd or cured.chance), name
        assert (ill.stopped is not None) == (name in LOUD), name
        assert ill != cured, name


def test_every_kind_is_the_diagnosis_of_one_patient():
    assert {diagnose_loud(name)[2] for name in LOUD} == set(LOUD_KINDS)
    assert {diagnose_silent(name)[2] for name in SILENT} == set(SILENT_KINDS)


def test_the_job_output_is_that_of_its_patient():
    """Each line of p05 that a traceback in it quotes is still that line of the program."""
    output, lines = JOB.read_text(), program("p05").splitlines()
    quoted = re.findall(r'p05.py", line (\d+), in patient\n.*?:     (.*)', output)
    assert {number for number, _ in quoted} == {"9", "11"}
    assert all(lines[int(number) - 1].strip() == text for number, text in quoted)


def test_every_patient_is_given_the_same_names_in_all_cases():
    for name in (*LOUD, *SILENT):
        for case in range(cases(name)):
            names = set(given(name, 1, 3, case))
            assert names == set(given(name, 0, 5)), name
            assert f"def patient(rank, n, {', '.join(given(name, 0, 2))}):" in program(name)


def test_the_records_show_the_call_that_was_left_out():
    found = hung().findings[0]
    assert (found.kind, found.rank, found.line) == ("mismatch", 3, "evaluation.py:9")


def test_a_hang_by_hand():
    """32 devices for half an hour are 16 device-hours; at 2 each they cost 32."""
    shown = hang_curve(5, 30, 2)
    assert shown["point"] == [30, 16.0]
    assert "16.0 device-hours, which cost 32" in shown["says"]
