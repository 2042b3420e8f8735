"""The answers that every lesson's checks must refuse or accept: `bank_NN*.py`, found by name.

A module of answers has `WRONG`, rows of exercise, key of the sentence and answer, each with a
sentence of its own; `RIGHT`, rows of exercise and answer; and where wanted `ALSO_WRONG`, the same
mistakes in other words, and `RARE`, exercise and key of sentences that no answer of the bank gets.
One module of a lesson has `LADDER`: an exercise and two spellings of one wrong answer, as a student
pastes them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dtlib.learn import ladder, source
from dtlib.learn.checking import Verdict

Answer = Callable[..., Any]
FILES = sorted(Path(__file__).parent.glob("bank_*.py"))
MODULES: list[ModuleType] = [importlib.import_module(path.stem) for path in FILES]
LESSONS = sorted({path.stem.split("_")[1] for path in FILES})


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
        Row(module.__name__.split("_")[1], row[0], row[1] if len(row) == 3 else "", row[-1])
        for module in MODULES
        for row in getattr(module, name, [])
    ]


def rare(lesson: str) -> set[tuple[str, str]]:
    """Exercise and key of sentences that no answer of the bank gets."""
    return {
        pair
        for m in MODULES
        if m.__name__.split("_")[1] == lesson
        for pair in getattr(m, "RARE", ())
    }


def ladders() -> dict[str, tuple[str, str, str]]:
    """Lesson → exercise and two spellings of one wrong answer."""
    return {m.__name__.split("_")[1]: m.LADDER for m in MODULES if hasattr(m, "LADDER")}


def verdict(lesson: str, exercise: str, answer: Answer) -> Verdict:
    """What the lesson's check says of an answer."""
    found = source.find(lesson)
    return ladder.judge(found, exercise, ladder.find_exercise(found, exercise), answer)
