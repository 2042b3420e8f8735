"""A room for a new lesson: a copy of `lessons_src/NN_name` with the lesson's number and title."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from dtlib.errors import BadInput
from dtlib.learn.source import course, lessons

TEMPLATE = "NN_name"


def new_room(number: str, name: str, sources: Path) -> Path:
    """Create the room of a new lesson: a working example that the author overwrites.

    Parameters
    ----------
    number
        The lesson's number, two digits.
    name
        Lower-case words joined by `_`; they are the title until the author has a better one.
    sources
        The folder `lessons_src`, which holds the room to copy.

    Returns
    -------
    Path
        The new folder.

    Raises
    ------
    BadInput
        If the number or the name is taken or invalid, or if there is nothing to copy.
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
        raise BadInput(f"a lesson's number must have two digits, such as 03, not {number!r}.")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise BadInput(
            f"{name!r} cannot name a lesson: write lower-case words, a to z, joined by _, as in "
            "text_pipeline."
        )
    for lesson in lessons(sources):
        if lesson.number == number or lesson.name == name:
            what = "number" if lesson.number == number else "name"
            raise BadInput(f"that {what} is taken by {lesson.stem}; choose another.")
    if not (sources / TEMPLATE).is_dir():
        raise BadInput(f"{sources} has no {TEMPLATE}, the room that a new lesson is copied from.")


def what_next(room: Path) -> str:
    """What the author does next, one line each."""
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
