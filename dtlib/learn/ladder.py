"""`check`, `hint`, `solution` and `given`: what a student uses around an exercise.

The ladder: the first time, a mistake is only named; the same mistake again brings the first hint,
then the second. The solution is offered after a hint and either two real attempts or the
exercise's minutes, and can always be opened.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from typing import Any

from dtlib.errors import BadInput, DtlibError, did_you_mean
from dtlib.learn import classroom, history, own_code, rooms, session
from dtlib.learn.show import Shown, folded, say, show, side_by_side, table
from dtlib.learn.source import Lesson
from dtlib.learn.verdicts import (
    Exercise,
    NotJudged,
    Passed,
    Stub,
    Verdict,
    Wrong,
    fingerprint,
    innermost,
    is_stub,
    sentence,
    stopped_here,
)

MINUTES = 10  # for an exercise whose lesson does not give its minutes


class Outcome(int):
    """True or False for a program; shows nothing as the last expression of a cell.

    The verdict has been printed by then, and a bare `False` below it would only discourage.
    """

    def _ipython_display_(self) -> None:
        pass


class CheckFailed(DtlibError):
    """A check of an instructor's notebook failed (only under DTLIB_STRICT=1)."""


def check(name: str, function: Callable[..., Any]) -> Outcome:
    """Check the student's function and say in a sentence what is right or wrong with it.

    Parameters
    ----------
    name
        The exercise.
    function
        What the student wrote.

    Returns
    -------
    Outcome
        Whether it passed: true or false. A wrong answer never raises, so Run All continues.

    Raises
    ------
    BadInput
        When the lesson has no such exercise.
    CheckFailed
        When it did not pass and DTLIB_STRICT=1 (instructor notebooks are tested that way).
    """
    lesson = session.current()
    exercise = find_exercise(lesson, name)
    verdict = judge(lesson, name, exercise, function)
    _note(lesson, name, function, verdict)
    if isinstance(verdict, Passed):
        _passed(lesson, name, exercise, function, verdict)
        return Outcome(True)
    if isinstance(verdict, Stub):
        text = f"`{name}` is not written yet: write it in the cell above and run this one again."
        say("… Not yet.", text, f'For a first hint: learn.hint("{name}")')
    else:
        text = _failed(lesson, name, exercise, function, verdict)
    if os.environ.get("DTLIB_STRICT") == "1":
        raise CheckFailed(f"the check of {name} in lesson {lesson.number} did not pass: {text}")
    return Outcome(False)


def judge(lesson: Lesson, name: str, exercise: Exercise, function: Any) -> Verdict:
    """Return the verdict alone: show and save nothing, and catch whatever the answer raises.

    `NotJudged` is not caught: it is the check's own failure, as is an exception that came from no
    line of the answer.
    """
    try:
        return unwritten(lesson, name, function) or exercise.check(function)
    except NotJudged:
        raise
    except Wrong as wrong:
        return wrong
    except Exception as error:
        if not innermost(error).name:
            raise NotJudged(
                f"the check of {name} in lesson {lesson.number} stopped with"
                f" {type(error).__name__}: {error}. The bug is in the check, not in your function."
            ) from error
        return stopped_here(error)


def unwritten(lesson: Lesson, name: str, function: Any) -> Verdict | None:
    """The verdict if this is not a function or still the stub; None if there is code to run."""
    if not callable(function):
        return Wrong("not_a_function", got=type(function).__name__)
    return Stub() if is_stub(function, lesson.definition(name, as_stub=True)) else None


def find_exercise(lesson: Lesson, name: str) -> Exercise:
    """The exercise `name` of a lesson's room."""
    exercises: dict[str, Exercise] = rooms.module(lesson, "exercises").EXERCISES
    if name not in exercises:
        raise BadInput(
            f"lesson {lesson.number} has no exercise {name!r}; it has {', '.join(exercises)}."
            + did_you_mean(name, exercises)
        )
    return exercises[name]


def _note(lesson: Lesson, name: str, function: Any, verdict: Verdict) -> None:
    """Keep how an attempt ended, and tell the class view if the student has joined one."""
    if isinstance(verdict, Stub):
        return
    with history.change(lesson.stem, "exercises", name) as entry:
        entry["checks"] = number = entry.get("checks", 0) + 1
        if isinstance(verdict, Passed):
            entry["passed"] = True
            entry.setdefault("passed_at", round(time.time()))
            entry.pop("not_kept", None)  # of an earlier pass
            if why := own_code.keep(lesson, name, function):
                entry["not_kept"] = why
    exercise = f"{lesson.number}/{name}"
    if isinstance(verdict, Passed):
        classroom.member().tell(exercise, number, classroom.PASSED, "")
    else:
        classroom.member().tell(exercise, number, classroom.REFUSED, verdict.mistake)


def _passed(lesson: Lesson, name: str, exercise: Exercise, function: Any, verdict: Passed) -> None:
    session.remember_pass(name, function)
    say("✓ Passed.", f"`{name}` is right.", *([verdict.note] if verdict.note else []))
    if verdict.measures:
        columns = ["", "yours", "target", "unit"]
        show(table(list(verdict.measures), columns, "Yours against the target"))
    if exercise.after_pass is not None:
        result = exercise.after_pass(function)
        if result is not None:
            show(result)
    mine, solution = _source(function), _solution(lesson, name, exercise)
    if mine.strip() != solution.strip():
        show(side_by_side(("Yours", mine), ("One solution", solution)))


def _failed(lesson: Lesson, name: str, exercise: Exercise, function: Any, wrong: Wrong) -> str:
    text = sentence(lesson.sidecar, name, wrong)
    with history.change(lesson.stem, "exercises", name) as entry:
        entry.setdefault("since", time.time())
        seen = entry.setdefault("mistakes", {})
        seen[wrong.mistake] = seen.get(wrong.mistake, 0) + 1
        attempts = entry.setdefault("attempts", [])
        mark = fingerprint(function)
        if callable(function) and mark not in attempts:
            attempts.append(mark)
        times, offered = seen[wrong.mistake], _may_see(lesson, name, entry)
        asked = entry.get("hints", 0)
    more = [f"Smallest case: {wrong.case}."] if wrong.case else []
    hints = _hints(lesson, name)
    number = min(times - 1, len(hints))
    if number:
        more.append(f"Hint {number}: {hints[number - 1]}")
    elif hints:
        more.append(f'For a hint: learn.hint("{name}")')
    if offered and (number or asked or not hints):
        more.append(f'You may look at a solution now: learn.solution("{name}")')
    say("✗ Not yet.", text, *more)
    return text


def _may_see(lesson: Lesson, name: str, entry: dict[str, Any]) -> bool:
    spent = (time.time() - entry.get("since", time.time())) / 60
    minutes = ((lesson.sidecar.get("notes") or {}).get(name) or {}).get("minutes", MINUTES)
    return len(entry.get("attempts", [])) >= 2 or spent >= minutes


def _hints(lesson: Lesson, name: str) -> list[str]:
    hints = (lesson.sidecar.get("hints") or {}).get(name) or []
    return [" ".join(text.split()) for text in hints]


def hint(name: str) -> None:
    """Show the next hint of an exercise; after the last it starts over."""
    lesson = session.current()
    find_exercise(lesson, name)
    hints = _hints(lesson, name)
    if not hints:
        say("Hint.", f'There is none for `{name}`; learn.solution("{name}") shows a solution.')
        return
    with history.change(lesson.stem, "exercises", name) as entry:
        shown = entry.get("hints", 0)
        entry["hints"] = shown + 1
    number = shown % len(hints)
    say(f"Hint {number + 1} of {len(hints)}.", hints[number])


def solution(name: str, *, anyway: bool = False) -> None:
    """Show the solution of an exercise.

    Until there were two real attempts (different code) or the exercise's minutes have passed, it
    stays folded; one click, or `anyway=True`, opens it.
    """
    lesson = session.current()
    exercise = find_exercise(lesson, name)
    code = _solution(lesson, name, exercise)
    entry = history.read(lesson.stem, "exercises", name)
    if anyway or entry.get("passed") or _may_see(lesson, name, entry):
        show(Shown(code, folded("A solution", code, opened=True).markup))
        return
    closed = folded(f"Show the solution of {name} anyway", code).markup
    tries = len(entry.get("attempts", []))
    text = f"You have tried {name} {tries} time{'' if tries == 1 else 's'}. Show its solution "
    show(Shown(f'{text}anyway: learn.solution("{name}", anyway=True)', closed))


def _solution(lesson: Lesson, name: str, exercise: Exercise) -> str:
    return lesson.definition(name) or _source(exercise.reference)


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function).rstrip("\n")
    except (OSError, TypeError):
        return f"# the source of {getattr(function, '__name__', 'this function')} is not available"


def given(name: str) -> Callable[..., Any]:
    """The student's function if it passed its check in this kernel, otherwise the reference.

    Later cells call this, so that an unsolved exercise stops nobody; it prints which one it gives.
    """
    lesson = session.current()
    exercise = find_exercise(lesson, name)
    mine = session.passed(name)
    whose = "yours, which passed" if mine else "the course's own, until yours has passed"
    print(f"{name}: {whose}.")
    return mine or exercise.reference
