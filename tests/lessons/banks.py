"""The answers that every lesson's checks must refuse or accept: `bank/*.py` in its room.

A module of answers has `WRONG`, rows of exercise, key of the sentence and answer, each with a
sentence of its own; `RIGHT`, rows of exercise and answer; and where wanted `ALSO_WRONG`, the same
mistakes in other words, and `RARE`, exercise and key of sentences that no answer of the bank gets.
One module of a lesson has `LADDER`: an exercise and two spellings of one wrong answer, as a student
pastes them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from dtlib.learn import ladder, rooms, source
from dtlib.learn.checking import Verdict

Answer = Callable[..., Any]
MODULES: list[ModuleType] = [
    rooms.module(lesson, f"bank.{path.stem}")
    for lesson in source.lessons()
    for path in sorted(lesson.room.glob("bank/[!_]*.py"))
]


def number_of(module: ModuleType) -> str:
    """The lesson that a module of answers belongs to."""
    return module.__name__[:2]


LESSONS = sorted({number_of(module) for module in MODULES})


class Row(NamedTuple):
    """An answer of a bank; `key` is empty where it is right."""

    lesson: str
    exercise: str
    key: str
    answer: Answer

    def __str__(self) -> str:
        return "-".join((self.lesson, self.exercise, self.answer.__name__))


def rows(name: str) -> list[Row]:
    """All rows of the lists called `name`, in order."""
    return [
        Row(number_of(module), row[0], row[1] if len(row) == 3 else "", row[-1])
        for module in MODULES
        for row in getattr(module, name, [])
    ]


def rare(lesson: str) -> set[tuple[str, str]]:
    """Exercise and key of sentences that no answer of the bank gets."""
    return {pair for m in MODULES if number_of(m) == lesson for pair in getattr(m, "RARE", ())}


def ladders() -> dict[str, tuple[str, str, str]]:
    """Lesson → exercise and two spellings of one wrong answer."""
    return {number_of(m): m.LADDER for m in MODULES if hasattr(m, "LADDER")}


def verdict(lesson: str, exercise: str, answer: Answer) -> Verdict:
    """What the lesson's check says of an answer."""
    found = source.find(lesson)
    return ladder.judge(found, exercise, ladder.find_exercise(found, exercise), answer)
