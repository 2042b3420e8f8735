"""The exercises of a lesson, in order, with the numbers and minutes that people call them by."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dtlib.learn.source import Cell, Lesson, solved

_NUMBERED = re.compile(r"^#+ Exercise (\d+)\b", re.M)


class Exercise(NamedTuple):
    """A function that the student writes.

    `number` is that of its heading (two halves of an exercise share it), and `place` that of its
    cell in the source. `core` exercises are those that are not marked *stretch*.
    """

    number: int
    name: str
    minutes: int
    core: bool
    place: int


def exercises(lesson: Lesson) -> list[Exercise]:
    """The exercises that the lesson checks, in the order of its cells."""
    notes = lesson.sidecar.get("notes") or {}
    known = lesson.sidecar.get("mistakes") or {}
    found: list[Exercise] = []
    heading = 0
    for place, cell in enumerate(lesson.cells):
        if cell.kind == "markdown":
            heading = max([heading, *map(int, _NUMBERED.findall(cell.text))])
        for name in defined(cell):
            if name in known:
                number = heading or len(found) + 1  # a lesson may not number its exercises
                minutes = (notes.get(name) or {}).get("minutes", 0)
                found.append(Exercise(number, name, minutes, "stretch" not in cell.tags, place))
    return found


def defined(cell: Cell) -> list[str]:
    """The functions and classes that an exercise cell defines; none for any other cell."""
    if cell.kind != "code" or "exercise" not in cell.tags:
        return []
    try:
        return [node.name for node in ast.parse(solved(cell.text)).body if hasattr(node, "name")]
    except SyntaxError:
        return []


def minutes(some: Iterable[Exercise]) -> int:
    """How long they take together."""
    return sum(one.minutes for one in some)


def in_words(numbers: Iterable[int | str]) -> str:
    """`exercises 1, 2 and 4`; empty for none."""
    unique = [str(number) for number in dict.fromkeys(numbers)]
    if len(unique) < 2:
        return f"exercise {unique[0]}" if unique else ""
    return f"exercises {', '.join(unique[:-1])} and {unique[-1]}"


def headings(lesson: Lesson) -> Iterator[tuple[str, Cell]]:
    """Each cell with the heading of the section that it stands in."""
    heading = lesson.header["title"]
    for cell in lesson.cells[1:]:
        if cell.kind == "markdown" and (new := re.findall(r"^#+ +(.+)$", cell.text, re.M)):
            heading = new[-1]
        yield heading, cell
