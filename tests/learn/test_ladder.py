"""The ladder: sentence, hints, solution; and what each call shows."""

from types import SimpleNamespace
from typing import Any

import pytest

from dtlib import learn
from dtlib.errors import BadInput
from dtlib.learn import history, ladder, session
from dtlib.learn.verdicts import NotJudged

pytestmark = pytest.mark.usefixtures("demo_lesson")


def double(x): ...


def same(x):
    return x


def also_same(x):
    y = x
    return y


def test_a_stub_is_not_a_mistake(capsys):
    assert not learn.check("double", double)
    assert "`double` is not written yet" in capsys.readouterr().out
    assert history.read("90_demo", "exercises", "double") == {}


def test_what_then_hint_1_then_hint_2(capsys):
    seen = []
    for _ in range(4):
        capsys.readouterr()
        assert not learn.check("double", same)
        seen.append(capsys.readouterr().out)
    assert all("You got 1 for 1: is that twice 1?" in text for text in seen)
    assert all("Smallest case: x = 1." in text for text in seen)
    hints = [[line for line in text.splitlines() if line.startswith("Hint")] for text in seen]
    second = ["Hint 2: Two times it."]
    assert hints == [[], ["Hint 1: Add it to itself."], second, second]
    assert "learn.solution" not in "".join(seen)  # the same code four times is one attempt


def test_another_mistake_starts_without_a_hint(capsys):
    learn.check("double", same)
    capsys.readouterr()
    learn.check("double", lambda x: x + 7)
    said = capsys.readouterr().out
    assert "Hint" not in said and 'learn.hint("double")' in said


def test_a_hint_comes_before_the_solution(capsys):
    learn.check("double", same)
    learn.check("double", lambda x: x + 7)
    assert "learn.solution" not in capsys.readouterr().out
    learn.hint("double")
    learn.check("double", lambda x: x + 8)
    assert 'You may look at a solution now: learn.solution("double")' in capsys.readouterr().out


def test_the_solution_is_offered_after_two_real_attempts(capsys):
    learn.check("double", same)
    learn.solution("double")
    early = capsys.readouterr().out
    assert "You have tried double 1 time." in early
    assert "return 2 * x" not in early
    learn.solution("double", anyway=True)
    assert "return 2 * x" in capsys.readouterr().out
    learn.check("double", also_same)
    assert 'You may look at a solution now: learn.solution("double")' in capsys.readouterr().out
    learn.solution("double")
    assert "return 2 * x" in capsys.readouterr().out


def test_the_solution_is_offered_after_the_stated_minutes(capsys, monkeypatch):
    learn.check("double", same)
    now = ladder.time.time()
    monkeypatch.setattr(ladder.time, "time", lambda: now + 5 * 60 + 1)
    capsys.readouterr()
    learn.solution("double")
    assert "return 2 * x" in capsys.readouterr().out


def test_a_pass_shows_measures_and_the_solution_beside(capsys):
    def mine(x):
        return x * 2

    assert learn.check("double", mine) == True  # noqa: E712
    out = capsys.readouterr().out
    assert "✓ Passed." in out and "return x * 2" in out and "return 2 * x" in out
    assert out.index("Yours") < out.index("bytes sent") < out.index("One solution")
    assert learn.given("double") is mine
    assert "yours, which passed" in capsys.readouterr().out


def test_given_falls_back_and_says_so(capsys):
    learn.check("double", same)
    assert learn.given("double")(21) == 42
    assert "the course's own" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "says"), [
    (lambda x: 1 / 0, "ZeroDivisionError: division by zero. Which line"),
    (lambda: 1, "TypeError"),
    (lambda x: print(end=""), "returned None"),
    (7, "the function itself, but got int"),
    (lambda x: 1e9, "does not recognise (1000000000.0)"),
])  # fmt: skip
def test_no_answer_makes_a_check_raise(answer, says, capsys):
    assert not learn.check("double", answer)  # type: ignore[arg-type]
    assert says in capsys.readouterr().out


def test_a_fault_of_the_check_is_not_told_as_the_answers():
    exercise: Any = SimpleNamespace(check=len)
    with pytest.raises(NotJudged, match="check of double in lesson 90 stopped with TypeError"):
        ladder.judge(session.current(), "double", exercise, same)


def test_a_check_shows_no_bare_false_in_a_notebook():
    from IPython.core.formatters import DisplayFormatter

    assert DisplayFormatter().format(learn.check("double", same)) == ({}, {})


def test_strict_makes_a_failed_check_raise(monkeypatch):
    monkeypatch.setenv("DTLIB_STRICT", "1")
    with pytest.raises(learn.CheckFailed, match="the check of double in lesson 90 did not pass"):
        learn.check("double", same)
    with pytest.raises(learn.CheckFailed):
        learn.check("double", double)
    assert learn.check("double", lambda x: x * 2)


def test_hints_on_demand_go_round(capsys):
    for _ in range(3):
        learn.hint("double")
    lines = capsys.readouterr().out.splitlines()
    hints = [line.split(".")[0] for line in lines if line.startswith("Hint")]
    assert hints == [f"Hint {number} of 2" for number in (1, 2, 1)]


@pytest.mark.parametrize("call", [learn.hint, learn.solution, learn.given])
def test_an_unknown_exercise_is_refused(call):
    with pytest.raises(BadInput, match=r"no exercise 'duble'; it has double\. Did you mean"):
        call("duble")


def test_without_a_lesson_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(session._state, "lesson", None)
    with pytest.raises(BadInput, match=r"learn\.start"):
        learn.check("double", same)


def test_start_says_the_lesson_and_what_is_missing(capsys, monkeypatch):
    capsys.readouterr()
    learn.start(90)
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setitem(session.current().header, "needs", ["slurm"])
    monkeypatch.setattr(session.shutil, "which", lambda name: None)
    assert not learn.ready()
    assert session.missing() == [
        "Not here: this lesson needs Slurm's sbatch, so it shows recorded results instead."
    ]
