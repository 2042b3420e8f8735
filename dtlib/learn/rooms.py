"""A lesson's folder as a package: its exercises, pictures and formulas, here and on every rank."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from dtlib.learn.source import Lesson
from dtlib.ranks.aliases import alias


def enter(lesson: Lesson) -> None:
    """Let `lesson` stand for this lesson's package, in this kernel and on the ranks it starts."""
    _reach(lesson)
    alias({"lesson": lesson.stem})


def module(lesson: Lesson, name: str) -> ModuleType:
    """Import a module of the lesson's room: `exercises`, `what_if`, `pictures`."""
    _reach(lesson)
    return importlib.import_module(f"{lesson.stem}.{name}")


def _reach(lesson: Lesson) -> None:
    folder = str(lesson.room.parent)
    if folder not in sys.path:
        sys.path.append(folder)
