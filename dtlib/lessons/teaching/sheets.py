"""The printed test before and after a workshop: questions of the lessons' quizzes, redrawn.

`test:` in `path.yaml` names them. The test before has a question's first numbers, the test after
its second, so both ask the same and neither answers the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from dtlib.errors import BadInput
from dtlib.learn.quiz import drawn
from dtlib.learn.source import Lesson, course, find

LETTERS = "ABCDEF"


class Question(NamedTuple):
    """A question of a lesson's quiz, drawn for both tests, and what it shows."""

    lesson: str
    shows: str
    variants: list[dict[str, Any]]


def questions(which: int, sources: Path) -> str:
    """One test as Markdown: the test before (0) or after (1)."""
    blocks = []
    for number, one in enumerate(_questions(sources), start=1):
        asked = one.variants[which]
        question = f"**{number}.** {asked['text']}"
        if asked["output"]:
            question += f"\n\n```text\n{asked['output']}\n```\n\n"
        options = zip(LETTERS, asked["options"], strict=False)
        boxes = "\\\n".join(f"☐ **{letter}** {option['text']}" for letter, option in options)
        # Hard line breaks and no list: a test should fit on one printed page.
        blocks.append(f"{question}{boxes}" if asked["output"] else f"{question}\\\n{boxes}")
    return "\n\n".join(blocks)


def answers(sources: Path) -> str:
    """The right letters of both tests, what each question shows, and why each option is wrong."""
    rows = ["| | before | after | it shows | lesson |", "| --- | --- | --- | --- | --- |"]
    reasons = []
    for number, one in enumerate(_questions(sources), start=1):
        before, after = (_right(variant) for variant in one.variants[:2])
        rows.append(f"| {number} | {before} | {after} | {one.shows} | {one.lesson} |")
        for which, variant in zip(("before", "after"), one.variants, strict=False):
            reasons.append(f"**{number}**, as the test {which} asks it:\n")
            for letter, option in zip(LETTERS, variant["options"], strict=False):
                mark = " (right)" if option["right"] else ""
                reasons.append(f"- **{letter}**{mark} {option['text']}: {option['why']}")
            reasons.append("")
    return "\n".join([*rows, "", *reasons]).rstrip()


def _right(variant: dict[str, Any]) -> str:
    return next(
        letter for letter, o in zip(LETTERS, variant["options"], strict=False) if o["right"]
    )


def _questions(sources: Path) -> list[Question]:
    """Raises `BadInput` for a question that its lesson's quiz does not have, or cannot redraw."""
    asked = course(sources).get("test") or []
    items = [_item(find(entry["lesson"], sources), entry["quiz"]) for entry in asked]
    found = []
    for number, (entry, question) in enumerate(zip(asked, drawn(items, []), strict=True)):
        variants = [
            variant | {"options": _turned(variant["options"], number + 2 * which)}
            for which, variant in enumerate(question["variants"])
        ]
        found.append(Question(entry["lesson"], entry["shows"], variants))
    return found


def _turned(options: list[Any], by: int) -> list[Any]:
    """The options from another one on: the right answers should not all have one letter."""
    place = by % len(options)
    return options[place:] + options[:place]


def _item(lesson: Lesson, name: str) -> dict[str, Any]:
    for item in lesson.sidecar.get("quiz") or []:
        if item.get("id") == name and "vary" in item and "mine" not in item:
            return dict(item)
    raise BadInput(
        f"path.yaml: the test asks for {name!r} of lesson {lesson.number}; its quiz must have a "
        "question of that id with `vary` and without `mine`."
    )
