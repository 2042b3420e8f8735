"""A lesson's folder as a package: its exercises, pictures and formulas, here and on every rank."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from dtlib.learn.source import Lesson
from dtlib.ranks.aliases import alias


def enter(lesson: Lesson) -> None:
    """Make `lesson` an alias of this lesson's package: here, on ranks, in scripts started here."""
    _reach(lesson)
    alias({"lesson": lesson.stem})
    os.environ["DTLIB_ROOM"] = lesson.stem  # `lesson.py` beside the rooms reads it in a script
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if (folder := str(lesson.room.parent)) not in places:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*places, folder]))


def module(lesson: Lesson, name: str) -> ModuleType:
    """Import a module of the lesson's room: `exercises`, `what_if`, `pictures`."""
    _reach(lesson)
    return importlib.import_module(f"{lesson.stem}.{name}")


def _reach(lesson: Lesson) -> None:
    folder = str(lesson.room.parent)
    if folder not in sys.path:
        sys.path.append(folder)
