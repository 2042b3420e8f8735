"""`learn.progress`: a student's own way through the course, at a glance."""

from __future__ import annotations

from typing import Any

from dtlib.learn import classroom, history
from dtlib.learn.catalogue import exercises, in_order
from dtlib.learn.show import show, table
from dtlib.learn.source import Lesson, path_of

COLUMNS = ("lesson", "exercises passed", "attempts", "predictions made", "right")


def progress() -> None:
    """Show how far you are: for each lesson, exercises passed, attempts, predictions made.

    The path's lessons come first, in its order, then others in which you have done something. It
    works in a notebook and in a console. Reads `.dtlib` in the current folder and sends nothing.
    """
    rows, passed, total = [], 0, 0
    path = path_of()
    for lesson in in_order():
        row = _row(lesson)
        if lesson.number in path or any(row[1:3]):
            done, there = row[1], len(exercises(lesson))
            passed, total = passed + done, total + there
            rows.append([row[0], f"{done} of {there}" if there else "none here", *row[2:]])
    show(table(rows, COLUMNS, f"Your way through the course: {passed} of {total} exercises passed"))
    if card := classroom.member().card():
        waiting = len(classroom.member().waiting())
        print(
            f"You are {card['name']!r} in the class view of {card['url']}; {waiting} verdict"
            f"{' waits' if waiting == 1 else 's wait'} to be sent."
        )
        if classroom.member().problem:
            print(f"It takes none: {classroom.member().problem}")


def _row(lesson: Lesson) -> list[Any]:
    """Title, exercises passed, attempts, predictions made, and how many of those were right."""
    names = exercises(lesson)
    tried = history.read(lesson.stem, "exercises")
    entries = [history.read(lesson.stem, "exercises", name) for name in names if name in tried]
    done = sum(bool(entry.get("passed")) for entry in entries)
    attempts = sum(number(entry.get("checks")) for entry in entries)
    asked = lesson.sidecar.get("predictions") or {}
    told = history.read(lesson.stem, "predictions")
    made = [history.read(lesson.stem, "predictions", key) for key in asked if key in told]
    guessed = [entry for entry in made if "value" in entry]
    right = sum(entry.get("right") is True for entry in guessed)
    predictions = f"{len(guessed)} of {len(asked)}" if asked else ""
    title = f"{lesson.number} {lesson.header['title']}"
    return [title, done, attempts, predictions, right if guessed else ""]


def number(value: Any) -> int:
    """A count of the progress file, which somebody may have edited."""
    return value if isinstance(value, int) else 0
