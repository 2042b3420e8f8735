"""An empty room for a new lesson: a copy of `lessons_src/NN_name`, with its number and title."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from dtlib.errors import BadInput
from dtlib.learn.source import course, lessons

TEMPLATE = "NN_name"


def new_room(number: str, name: str, sources: Path) -> Path:
    """Make the room of a new lesson, an example that passes its tests and is written over.

    Parameters
    ----------
    number
        The lesson's place on the shelf, two digits.
    name
        Words in small letters with `_` between them; the title until the author has a better one.
    sources
        The folder `lessons_src`, which holds the room that is copied.

    Returns
    -------
    Path
        The new folder.

    Raises
    ------
    BadInput
        For a number or a name that is taken or cannot be one, or where there is nothing to copy.
    """
    _refuse(number, name, sources)
    room = sources / f"{number}_{name}"
    shutil.copytree(sources / TEMPLATE, room, ignore=shutil.ignore_patterns("__pycache__"))
    words = {"NN": number, "TITLE": name.replace("_", " ").capitalize()}
    for path in room.rglob("*.*"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"\b(NN|TITLE)\b", lambda m: words[m[1]], text), encoding="utf-8")
    return room


def _refuse(number: str, name: str, sources: Path) -> None:
    if not re.fullmatch(r"\d\d", number):
        raise BadInput(f"a lesson's number has two digits, as 03 has, and {number!r} has not.")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise BadInput(
            f"{name!r} cannot name a lesson: write words in small letters, a to z, with _ between "
            "them, as in text_pipeline."
        )
    for lesson in lessons(sources):
        if lesson.number == number or lesson.name == name:
            what = "number" if lesson.number == number else "name"
            raise BadInput(f"that {what} is taken by {lesson.stem}; choose another one.")
    if not (sources / TEMPLATE).is_dir():
        raise BadInput(f"{sources} has no {TEMPLATE}, the room that a new lesson begins as.")


def what_next(room: Path) -> str:
    """What the author does now, a line each."""
    number = room.name[:2]
    plan = course(room.parent)
    listed = [one for part in plan.get("parts") or [] for one in part["lessons"]]
    lines = [
        "Write your lesson over the example (book/writing_lessons.md), then:",
        "  dtlib lessons build",
        f"  make test LESSON={number}",
    ]
    if number not in listed:
        lines.insert(0, f'Add "{number}" to a part of the course in {room.parent / "path.yaml"}.')
    return "\n".join(lines)
