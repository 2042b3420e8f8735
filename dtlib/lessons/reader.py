"""The words of a page whose reader has not run it: what it measured and checked is the course's."""

from __future__ import annotations

import re
from typing import Any

# In what a student's own run shows, "yours" is right. "A change of yours" stays on a page, too.
_YOURS = re.compile(r"(?<!of )(?<!in )(?<!if )(?<!stay )\byours\b")
_PROSE = (
    (_YOURS, "the course's"),
    # "Say that you measured …" supposes something, and stays.
    (re.compile(r"(?<!Say )\b(what|that)(\s+)you measured\b"), r"\1\2the course measured"),
)
_SHOWN = (
    # A figure has left as much room for its label as that took.
    (re.compile(r"(<text[^>]*>)yours(?=</text>)"), r"\1ours"),
    *_PROSE,
    (re.compile(r"\bYours (?=against\b)"), "The course's "),
    (re.compile(r"\bYou measured\b"), "The course measured"),
    (re.compile(r"\bIn your runs\b"), "In the course's runs"),
    (re.compile(r"\byour (?=(?:ring|step|efficiency|function|runs?)\b)"), "the course's "),
    (re.compile(r"\bYour (?=(?:ring|step|efficiency|function|runs?)\b)"), "The course's "),
    (re.compile(r"\bExercises passed: "), "Exercises that the course's solutions pass: "),
    (re.compile(r"^Your answers are kept in .*\n?", re.M), ""),
)


def prose(text: str) -> str:
    """A lesson's Markdown, where it speaks of what the student's run has shown."""
    return _said(text, _PROSE)


def shown(thing: Any) -> Any:
    """What a cell showed, as JSON: every text in it, except programs, in a reader's words."""
    if isinstance(thing, str):
        return _said(thing, _SHOWN)
    if isinstance(thing, list):
        return [shown(one) for one in thing]
    if isinstance(thing, dict):
        programs = ("_esm", "source", "image/png")
        return {name: one if name in programs else shown(one) for name, one in thing.items()}
    return thing


def _said(text: str, words: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, instead in words:
        text = pattern.sub(instead, text)
    return text
