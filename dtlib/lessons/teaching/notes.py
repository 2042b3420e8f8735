"""The instructor's notes: cells of the instructor's notebooks, and a page of all lessons.

They are `notes:` in the sidecar. What the room sees, and what may be skipped, is said of a cell,
which the note names by a piece of its code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dtlib.learn.source import Cell, Lesson, lessons
from dtlib.lessons.markdown import quoted
from dtlib.lessons.teaching.exercises import exercises, headings, in_words, minutes

LESSON_KEYS = ("before", "shows", "skip", "late", "goes_wrong", "ask")
EXERCISE_KEYS = ("minutes", "goes_wrong", "ask")
_WORDS = {
    "before": "Before you begin", "goes_wrong": "What goes wrong", "ask": "Ask the room",
    "late": "If you are late",
}  # fmt: skip

_PASS = "Instructor: run the next cell, and pass over it"
_SEES = "Instructor: what the room sees"


def note(lesson: Lesson, name: str) -> list[Cell]:
    """The notes on the lesson or on one exercise, as a cell; none where there are none."""
    given = (lesson.sidecar.get("notes") or {}).get(name)
    if not given:
        return []
    lines = [given]
    if isinstance(given, dict):
        say = lesson.words
        lines = [f"{say('Minutes')}: {given['minutes']}"] if "minutes" in given else []
        lines = [f"{say('Minutes')}: {spent(lesson)}"] if name == "lesson" else lines
        lines += [
            f"{say(word)}: {_line(given[key])}" for key, word in _WORDS.items() if key in given
        ]
    return [Cell("markdown", quoted(lesson.words("Instructor"), "\n\n".join(lines)))]


def around(lesson: Lesson, cell: Cell) -> tuple[list[Cell], list[Cell]]:
    """What the instructor reads before a cell of code, and after it."""
    before = [
        Cell("markdown", quoted(lesson.words(_PASS), _line(one["why"])))
        for one in _named(lesson, "skip")
        if is_named(cell, one["cell"])
    ]
    after = [
        Cell("markdown", quoted(lesson.words(_SEES), _line(one["see"])))
        for one in _named(lesson, "shows")
        if is_named(cell, one["cell"])
    ]
    return before, after


def is_named(cell: Cell, words: str) -> bool:
    """Whether a note that names a cell by a piece of its code means this one."""
    return cell.kind == "code" and words in cell.text


def spent(lesson: Lesson) -> str:
    """How long a lesson takes, and how long its core."""
    own, given = exercises(lesson), lesson.header["minutes"]
    text = lesson.words("{read} to read and run, {exercises} for the exercises").format(**given)
    core = [one for one in own if one.core]
    if len(core) == len(own):
        return f"{text}."
    return f"{text}. The core, {in_words(one.number for one in core)}, takes {minutes(core)}."


def manual(sources: Path) -> str:
    """A section of Markdown for each lesson that has notes."""
    parts = [_section(lesson) for lesson in lessons(sources) if "notes" in lesson.sidecar]
    return "\n\n".join(parts)


def _section(lesson: Lesson) -> str:
    note = lesson.sidecar["notes"].get("lesson") or {}
    given: dict[str, Any] = note if isinstance(note, dict) else {"before": note}
    header = lesson.header
    aims = "; ".join(header["objectives"])
    lines = [
        f"## {lesson.number} {header['title']}",
        f"**Aim.** After it the participants can {aims}.",
        f"**Minutes.** {spent(lesson)} It needs: {', '.join(header['needs'])}.",
    ]
    lines += [_paragraph(given, key) for key in ("before", "ask") if key in given]
    lines += _cells(lesson, "shows", "What the room sees", "see")
    lines += _cells(lesson, "skip", "What you can run and pass over", "why")
    lines += [_paragraph(given, key) for key in ("late", "goes_wrong") if key in given]
    return "\n\n".join([*lines, _table(lesson)])


def _paragraph(given: dict[str, Any], key: str) -> str:
    return f"**{_WORDS[key]}.** {_line(given[key])}"


def _cells(lesson: Lesson, key: str, title: str, what: str) -> list[str]:
    """A list of cells by section and code, with what is said of each."""
    rows = []
    for one in _named(lesson, key):
        section = next((head for head, cell in headings(lesson) if is_named(cell, one["cell"])), "")
        rows.append(f"- *{section}*, `{one['cell']}`: {_line(one[what])}")
    return [f"**{title}.**\n\n" + "\n".join(rows)] if rows else []


def _table(lesson: Lesson) -> str:
    """A row for each exercise."""
    rows = ["| exercise | minutes | what goes wrong | ask the room |", "| --- | --- | --- | --- |"]
    for one in exercises(lesson):
        said = lesson.sidecar["notes"].get(one.name) or {}
        core = "" if one.core else " (stretch)"
        wrong, ask = (_cell(said.get(key, "")) for key in ("goes_wrong", "ask"))
        rows.append(f"| {one.number} `{one.name}`{core} | {one.minutes} | {wrong} | {ask} |")
    return "\n".join(rows)


def _named(lesson: Lesson, key: str) -> Iterator[dict[str, str]]:
    note = (lesson.sidecar.get("notes") or {}).get("lesson")
    yield from (note.get(key) or []) if isinstance(note, dict) else []


def _line(text: Any) -> str:
    return " ".join(str(text).split())


def _cell(text: Any) -> str:
    """A line that may stand in a table."""
    return _line(text).replace("|", "\\|")
