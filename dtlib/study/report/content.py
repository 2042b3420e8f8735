"""What a page consists of: sections with sentences, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Rows of text below a header; the first cell of a row names the row."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A drawing as a data URL, with its description in words and its numbers."""

    caption: str
    image: str
    words: str
    numbers: Table


@dataclass
class Section:
    """A heading and the content below it."""

    heading: str
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    text: str = ""
    level: int = 2


@dataclass
class Page:
    """A whole page; `missing` names the parts without records."""

    title: str
    ended: str
    sections: list[Section] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def facts(caption: str, pairs: dict[str, object]) -> Table:
    """Return a table of names and values; None means "not measured"."""
    values = ("not measured" if value is None else str(value) for value in pairs.values())
    return Table(caption, ("", "value"), list(zip(pairs, values, strict=True)))


def spelled(seconds: float) -> str:
    """Return a duration in words: "45 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
