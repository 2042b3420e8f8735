"""The exercises of a lesson by name, read from its source; no room is imported."""

from __future__ import annotations

import re

from dtlib.learn.source import Lesson, lessons, path_of
from dtlib.learn.verdicts import COMMON

_CHECKED = re.compile(r'\blearn\.check\(\s*"(\w+)"')


def exercises(lesson: Lesson) -> list[str]:
    """The names of a lesson's exercises, in the order in which the lesson checks them."""
    cells = (cell.text for cell in lesson.cells if "check" in cell.tags)
    return list(dict.fromkeys(_CHECKED.findall("\n".join(cells))))


def mistakes(lesson: Lesson, exercise: str) -> dict[str, str]:
    """Key → sentence of every mistake that the check of an exercise may name."""
    own = (lesson.sidecar.get("mistakes") or {}).get(exercise) or {}
    return {**COMMON, **own}


def in_order() -> list[Lesson]:
    """All lessons: first those of the path in the path's order, then the others by number."""
    place = {number: k for k, number in enumerate(path_of())}
    return sorted(lessons(), key=lambda one: (place.get(one.number, len(place)), one.number))
