"""A student's notebook with its first exercises solved, for somebody who comes late."""

from __future__ import annotations

import itertools
from pathlib import Path

from dtlib.config.files import writable_folder, write_atomically
from dtlib.errors import BadInput
from dtlib.learn.source import Lesson
from dtlib.lessons.build import derive
from dtlib.lessons.markdown import quoted
from dtlib.lessons.teaching.exercises import exercises, in_words


def catch_up(lesson: Lesson, to: int, folder: Path) -> tuple[Path, str]:
    """Write the notebook in which the exercises up to number `to` are solved.

    The student's own notebook is left alone: the new one has another name. A notebook of that name
    that says something else, such as one that somebody has worked in, stays too, and the new one
    gets a number.

    Parameters
    ----------
    lesson, to
        Exercises 1 to `to` of this lesson are solved.
    folder
        Where the notebook goes: that of the student's notebooks, so that their answers are found.

    Returns
    -------
    tuple of Path and str
        The notebook, and a sentence that says what it is and what to do.

    Raises
    ------
    BadInput
        When the lesson has no exercise of that number, or the folder cannot be written to.
    """
    own = exercises(lesson)
    numbers = sorted({one.number for one in own})
    if to not in numbers:
        has = f"it has {in_words(numbers)}" if numbers else "it has none"
        raise BadInput(f"lesson {lesson.number} has no exercise {to}; {has}.")
    done = in_words(number for number in numbers if number <= to)
    rest = [number for number in numbers if number > to]
    then = f"go on with exercise {rest[0]}" if rest else "every exercise is solved"
    remark = quoted(
        "Catching up",
        f"In this copy {done} of lesson {lesson.number} {'is' if to == numbers[0] else 'are'} "
        f"solved with the course's own solutions. Run all cells up to there (Run → Run All Above "
        f"Selected Cell), and {then}.",
    )
    solved = {one.place for one in own if one.number <= to}
    text = derive(lesson, "student", solve=solved, remark=remark)
    path = _place(writable_folder(folder), f"catch_up_{lesson.number}_to_{to}", text)
    there = path.exists()
    if not there:
        write_atomically(path, text)
    what = "was there already, and nobody has changed it" if there else "is new"
    return path, f"{path.name} {what}: {done} solved; {then}."


def _place(folder: Path, stem: str, text: str) -> Path:
    """The first path of that name which is free, or holds exactly this text."""
    for number in itertools.count(1):
        path = folder / f"{stem}{'' if number == 1 else f'_{number}'}.ipynb"
        if not path.exists() or path.read_text(encoding="utf-8") == text:
            return path
    raise AssertionError("numbers do not end")
