"""CSV files as spreadsheets save them: byte order marks, semicolons, decimal commas, code pages."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

SEPARATORS = ",;\t"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Sheet:
    """The parsed content of a CSV file.

    Attributes
    ----------
    columns
        Column names in order; "" for a column without a name.
    rows
        Each as long as `columns`; empty lines are left out.
    plain
        Whether the file uses commas and UTF-8, as dtlib writes it.
    marked
        Whether it begins with a byte order mark, by which Excel recognizes UTF-8.
    """

    columns: list[str]
    rows: list[list[str]]
    plain: bool = True
    marked: bool = False

    def dicts(self) -> list[dict[str, str]]:
        """Return each row as a dict by column name; columns without a name are left out."""
        return [
            {name: cell for name, cell in zip(self.columns, row, strict=True) if name}
            for row in self.rows
        ]


def decode(content: bytes) -> tuple[str, str]:
    """Return a file's text and its encoding: that of its mark, otherwise UTF-8, otherwise cp1252.

    Raises `ValueError` when none of them fits.
    """
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    for name in dict.fromkeys((encoding, "cp1252" if encoding == "utf-8" else encoding)):
        with contextlib.suppress(UnicodeDecodeError):
            text = content.decode(name)
            if "\0" not in text:
                return text, name
    raise ValueError("it is not text in UTF-8")


def read_sheet(path: Path, known: Sequence[str], numbers: Collection[str] = ()) -> Sheet:
    """Read a CSV file that a spreadsheet may have saved.

    Parameters
    ----------
    known
        Columns that the file may have; they tell which separator it uses.
    numbers
        The known columns that hold numbers. If the separator is not a comma, their decimal commas
        become points.

    Raises
    ------
    ValueError
        When it cannot be parsed: unknown encoding, unclosed quote, a column twice.
    OSError
        When it cannot be read.
    """
    text, encoding = decode(path.read_bytes())
    if said := re.match(r"sep=(.)\r?\n", text):  # Excel's own first line
        text = text[said.end() :]
    head = text.partition("\n")[0]
    names = {name.lower(): name for name in known}
    separator = max(SEPARATORS, key=lambda each: len(names.keys() & set(_names(head, each))))
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from error
    lines = [lines[0], *(line for line in lines[1:] if any(map(str.strip, line)))] if lines else []
    width = max((len(_trimmed(line)) for line in lines), default=0)
    lines = [[*line, *[""] * width][:width] for line in lines]
    columns = [names.get(cell.strip().lower(), cell.strip()) for cell in (lines or [[]])[0]]
    twice = [name for name in columns if name and columns.count(name) > 1]
    if twice:
        raise ValueError(f"it has the column {twice[0]} twice")
    if separator != ",":
        at = [columns.index(name) for name in numbers if name in columns]
        for line in lines[1:]:
            for number in at:
                line[number] = with_point(line[number])
    plain = separator == "," and encoding in ("utf-8", "utf-8-sig")
    return Sheet(columns, lines[1:], plain, encoding == "utf-8-sig")


def with_point(cell: str) -> str:
    """Replace the decimal comma of a number by a point; return any other text unchanged."""
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell.strip()) else cell


def written(columns: Sequence[str], rows: Sequence[Sequence[str]], marked: bool = False) -> bytes:
    """Return the content of a CSV file: commas, UTF-8, one line per row."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue().encode("utf-8-sig" if marked else "utf-8")


def _names(line: str, separator: str) -> list[str]:
    cells = line.rstrip("\r").split(separator)
    return [cell.strip().strip('"').strip().lower() for cell in cells]


def _trimmed(line: list[str]) -> list[str]:
    """Drop the empty cells at the end of a line; spreadsheets write many of them."""
    while line and not line[-1].strip():
        line = line[:-1]
    return line
