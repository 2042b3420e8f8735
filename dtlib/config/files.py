"""Write files so that a reader sees either the old or the complete new one; read YAML."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtlib.config.sheets import decode
from dtlib.errors import BadInput, in_words


def writable_folder(folder: Path, setting: str = "--out") -> Path:
    """Create a folder if necessary, check that files can be created in it, and return it.

    Raises `BadInput` when they cannot; the message names the setting that chooses another folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise BadInput(
            f"the folder {folder} cannot be written to ({in_words(error)}): choose another"
            f" {setting}."
        ) from None


def fsync_folder(folder: Path) -> None:
    """Make the names inside `folder` (new, renamed, removed) survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content` (text in UTF-8) in one step.

    The temporary file lies in the same folder: a rename is atomic only within one file system.
    """
    temporary = path.with_name(f".tmp-{path.name}-{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        fsync_folder(path.parent)
    except OSError as error:
        if error.filename is not None:
            error.filename = str(path)  # which a person knows
        raise
    finally:
        temporary.unlink(missing_ok=True)


def back_up(path: Path) -> Path:
    """Copy a file to `NAME.bak`, or the next free name like it, and return the copy's path."""
    content = path.read_bytes()
    for number in itertools.count(1):
        copy = path.with_name(f"{path.name}.bak{'' if number == 1 else number}")
        if not copy.exists():
            write_atomically(copy, content)
            return copy
        if copy.read_bytes() == content:
            return copy
    raise AssertionError("numbers do not end")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV file in one step; None becomes an empty cell.

    A file that has other columns, or was saved by a spreadsheet, is copied first: somebody may have
    put work into it.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    head = text.getvalue().encode().rstrip()
    if path.exists() and path.read_bytes().partition(b"\n")[0].rstrip() not in (b"", head):
        print(f"{path} has changed since dtlib wrote it; it is kept as {back_up(path).name}.")
    writer.writerows(rows)
    write_atomically(path, text.getvalue())


def _what_is_wrong(error: Exception) -> str:
    """Return the reason for an error, with the line if it is an error of YAML."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return in_words(error).partition(' in "<unicode')[0]
    begun = getattr(error, "context_mark", None) or mark
    since = f", in what begins in line {begun.line + 1}" if begun.line < mark.line else ""
    problem = re.sub(r"'?<(\w+) end>'?", r"the end of the \1", getattr(error, "problem", ""))
    return f"line {mark.line + 1}: {problem}{since}"


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read the `key: value` lines of a YAML file; the keys and values are not checked here.

    Raises `BadInput` when the file does not exist or holds anything else.
    """
    import yaml

    try:
        text, _ = decode(Path(path).read_bytes())
        content, tree = yaml.safe_load(text), yaml.compose(text, yaml.SafeLoader)
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        remedy = "give the YAML file of settings" if isinstance(error, OSError) else "correct it"
        raise BadInput(
            f"the configuration {path} cannot be read: {_what_is_wrong(error)}; {remedy}."
        ) from error
    if not isinstance(content, dict):
        kinds = {type(None): "is empty", list: "is a list"}
        what = kinds.get(type(content)) or f"holds only {str(content)[:40]!r}"
        raise BadInput(
            f"the configuration {path} {what}, but it must hold lines of the form key: value."
        )
    keys = [key.value for key, _ in getattr(tree, "value", [])]
    for key in content:
        if keys.count(key) > 1:
            raise BadInput(f"the configuration {path} gives {key!r} twice; keep one.")
    return content
