"""A lesson in another language: its code as it is, its words from a file beside the source.

`de.yaml` in a lesson's room has the German for each of the lesson's texts, under the English one;
`de.yaml` beside the rooms has it for what all lessons share. A paragraph of the story is a text,
and so is each entry of the sidecar. A text that has no translation stays English.
"""

from __future__ import annotations

import dataclasses
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dtlib.errors import BadInput
from dtlib.learn.source import Cell, Lesson, yaml_mapping

Say = Callable[[str], str]

# Whatever stands under these keys of a sidecar is words; the rest is names, numbers and formulas.
_WORDS = {"hints", "mistakes", "notes", "question", "text", "why", "title", "label", "words"}
SAME = "(same)"
"""Stands for the translation of a text that is the same in both languages."""

_START = re.compile(r'learn\.start\("([^"]+)"\)')
_CODE = re.compile(r"`[^`]+`|\$\$.+?\$\$|\$[^$]+\$|\]\([^)]*\)|\{\{.*?\}\}", re.S)
_SENTENCE = re.compile(r"(?<=[.?!:])\s+")


def languages(lesson: Lesson) -> list[str]:
    """The languages into which a lesson is translated, such as `["de"]`."""
    return sorted(path.stem for path in lesson.room.glob("[a-z][a-z].yaml"))


def translated(lesson: Lesson, language: str) -> Translated:
    """The lesson in another language.

    Parameters
    ----------
    lesson
        The lesson as it was written.
    language
        The two letters that name its file: `"de"`.

    Raises
    ------
    BadInput
        When the lesson has no such file.
    """
    there = languages(lesson)
    if language not in there:
        raise BadInput(
            f"lesson {lesson.number} has no translation {language!r}; it has "
            f"{', '.join(there) or 'none'}."
        )
    return Translated(lesson.path, language)


@dataclass
class Translated(Lesson):
    """A lesson whose Markdown, header and sidecar are in `language`, where it has them."""

    language: str

    @cached_property
    def own(self) -> dict[str, str]:
        """English text → translation, from the file in the lesson's room."""
        return self._texts(in_room=True)

    @cached_property
    def shared(self) -> dict[str, str]:
        """English text → translation, from the file beside the rooms."""
        return self._texts(in_room=False)

    def _texts(self, *, in_room: bool) -> dict[str, str]:
        path = (self.room if in_room else self.room.parent) / f"{self.language}.yaml"
        if not path.exists():
            return {}
        what = "a mapping of each English text to its translation"
        found = yaml_mapping(path.read_text(encoding="utf-8"), path, what)
        for english, text in found.items():
            if not isinstance(english, str) or not isinstance(text, str):
                raise BadInput(f"{path.parent.name}/{path.name} is not {what}: see {english!r}.")
        return {_line(english): text.strip() for english, text in found.items()}

    def words(self, text: str) -> str:
        """The translation of a text, or the text itself when there is none."""
        line = _line(text)
        found = self.own.get(line) or self.shared.get(line)
        return text if found in (None, SAME) else found

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells, with their Markdown translated; the one that starts the lesson says so."""
        start = rf'learn.start("\1", language="{self.language}")'
        return [
            dataclasses.replace(cell, text=_START.sub(start, cell.text))
            if cell.kind == "code"
            else _cell(cell, self.words)
            for cell in Lesson(self.path).cells
        ]

    @cached_property
    def header(self) -> dict[str, Any]:
        """The header with its title, its objectives and what the student does, translated."""
        return _header(Lesson(self.path).header, self.words)

    @cached_property
    def sidecar(self) -> dict[str, Any]:
        """The sidecar with its words translated."""
        return _sidecar(Lesson(self.path).sidecar, self.words)


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(cell: Cell, say: Say) -> Cell:
    if cell.kind != "markdown":
        return cell
    return dataclasses.replace(cell, text="\n\n".join(map(say, re.split(r"\n\s*\n", cell.text))))


def _header(header: dict[str, Any], say: Say) -> dict[str, Any]:
    objectives = [say(objective) for objective in header["objectives"]]
    return header | {
        "title": say(header["title"]), "does": say(header["does"]), "objectives": objectives
    }  # fmt: skip


def _sidecar(value: Any, say: Say, *, words: bool = False) -> Any:
    if isinstance(value, dict):
        # a note names the cell that it is about by a piece of its code
        return {
            key: v if key == "cell" else _sidecar(v, say, words=words or key in _WORDS)
            for key, v in value.items()
        }
    if isinstance(value, list):
        return [_sidecar(v, say, words=words) for v in value]
    return say(value) if words and isinstance(value, str) else value


def _english(lesson: Lesson) -> list[str]:
    """The texts of a lesson that have words to translate."""
    found: dict[str, None] = {}

    def note(text: str) -> str:
        if _has_words(text):
            found[_line(text)] = None
        return text

    written = Lesson(lesson.path)
    _header(written.header, note)
    for cell in written.cells[1:]:
        _cell(cell, note)
    _sidecar(written.sidecar, note)
    return list(found)


def _has_words(text: str) -> bool:
    return bool(re.search(r"[^\W\d_]{2}", re.sub(r"\{[^{}]*\}", "", _CODE.sub("", text))))


def untranslated(lesson: Translated) -> Iterator[str]:
    """Yield a sentence for each text whose translation is missing, stale or not a translation.

    A text is stale when its English is no longer in the lesson.
    """
    own = f"{lesson.stem}/{lesson.language}.yaml"
    texts = _english(lesson)
    for text in texts:
        if not lesson.own.get(text):
            yield f"{own} has no translation of {_short(text)}"
    for english in lesson.own:
        # A cell may name a text, too: a word that it gives to learn.measured, say.
        if english not in texts and f'"{english}"' not in lesson.text:
            yield f"{own} translates what is no longer in the lesson: {_short(english)}"
    shared = f"{lesson.room.parent.name}/{lesson.language}.yaml"
    for where, entries in ((own, lesson.own), (shared, lesson.shared)):
        for english, text in entries.items():
            if text != SAME:
                yield from (f"{where} {fault}" for fault in _faults(english, text))


def _faults(english: str, text: str) -> Iterator[str]:
    kept = set(_SENTENCE.split(english)) & set(_SENTENCE.split(_line(text)))
    for sentence in sorted(filter(_has_words, kept)):
        yield f"leaves in English: {_short(sentence)}"
    for part in sorted(_fixed(english) ^ _fixed(text)):
        yield f"has {part} in only one of the languages of {_short(english)}"


def _short(text: str) -> str:
    return f"“{text}”" if len(text) <= 80 else f"“{text[:80].rsplit(' ', 1)[0]} …”"


def _fixed(text: str) -> set[str]:
    """What a translation must not change: code, formulas, addresses, and what is filled in."""
    found = {_line(part) for part in _CODE.findall(text)}
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:  # braces of a formula
        return found
    # An expression may choose between words, which are translated: {'s' if n > 1 else ''}.
    return found | {
        re.sub(r"'[^']*'", "'…'", f"{{{expression}:{form}}}" if form else f"{{{expression}}}")
        for _, expression, form, _ in parts
        if expression is not None
    }
