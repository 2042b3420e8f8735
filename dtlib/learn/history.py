"""What a student has done so far: `.dtlib/progress.json` and `my_runs.csv` beside the notebooks.

Two notebooks may be open at once, so every change is read, made and written under one lock, and a
file is replaced atomically: a kernel that is killed leaves either the old file or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dtlib.config.files import back_up, write_atomically
from dtlib.config.sheets import Sheet, read_sheet, written
from dtlib.learn import places
from dtlib.learn.show import say

COLUMNS = ("lesson", "what", "predicted", "measured", "unit", "source")
NOISE = ", within the noise"  # ends the source of a number that shows no effect


def folder() -> Path:
    """The folder of what is kept beside the notebooks; it may not exist yet."""
    return places.home() / ".dtlib"


@contextlib.contextmanager
def locked(where: Path) -> Iterator[None]:
    """Make a folder if necessary, and keep other processes and threads from changing it."""
    where.mkdir(exist_ok=True)
    with (where / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _load(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):  # a file that somebody edited must not stop a lesson
        return {}
    return state if isinstance(state, dict) else {}


def read(*place: str) -> dict[str, Any]:
    """What is kept for a lesson, one kind of entry (`"exercises"`) or one key; `{}` if nothing."""
    found: Any = _load(folder() / "progress.json")
    for part in place:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def change(lesson: str, kind: str, key: str) -> Iterator[dict[str, Any]]:
    """Yield the entry of one key, to be changed in place under the lock."""
    with locked(folder()):
        path = folder() / "progress.json"
        state = _load(path)
        entry, lost = state, not state and path.exists() and path.read_bytes().split() != [b"{}"]
        for part in (lesson, kind, key):
            lost = lost or not isinstance(entry.get(part, {}), dict)
            if not isinstance(entry.get(part), dict):
                entry[part] = {}
            entry = entry[part]
        if lost:
            _keep(path, "has been changed, and the parts that dtlib cannot read are reset")
        yield entry
        write_atomically(
            path, json.dumps(state, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        )


def runs() -> list[dict[str, str]]:
    """The rows of `my_runs.csv` in the order they were added; columns of the student's own last.

    A spreadsheet may have saved the file. One that cannot be read has no rows and is left as it is.
    """
    with contextlib.suppress(FileNotFoundError, ValueError):
        return [dict.fromkeys(COLUMNS, "") | row for row in _sheet().dicts()]
    return []


def add_run(row: dict[str, Any]) -> None:
    """Add a row; running the same cell again replaces it (same lesson, what and source).

    Columns that the student has added are kept, with their contents. If a spreadsheet saved the
    file in another format, or if it cannot be read, a copy is kept and a message names it.
    """
    new = {c: _cell(row.get(c)) for c in COLUMNS}
    with locked(folder()):
        path = places.home() / "my_runs.csv"
        sheet = Sheet(list(COLUMNS), [])
        try:
            sheet = _sheet()
        except FileNotFoundError:
            pass
        except ValueError as error:
            _keep(path, f"cannot be read ({error}), so a new one is started")
        if not sheet.plain:
            _keep(path, "was saved by a spreadsheet; its rows are kept, with commas and in UTF-8")
        columns = [*sheet.columns, *(c for c in COLUMNS if c not in sheet.columns)]
        rows, line = [], [""] * len(columns)
        for cells in sheet.rows:
            old = [*cells, *[""] * (len(columns) - len(cells))]
            if _same_run(dict(zip(columns, old, strict=True)), new):
                line = old  # the student's notes in columns of their own are kept
            else:
                rows.append(old)
        line = [new.get(c, cell) for c, cell in zip(columns, line, strict=True)]
        write_atomically(path, written(columns, [*rows, line], sheet.marked))


def _cell(value: Any) -> str:
    """Write six digits, more than any measurement here has; whole numbers keep all digits."""
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return "" if value is None else str(value)


def _same_run(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two rows are one run; a source's words after its comma belong to the result."""
    same = one["lesson"] == other["lesson"] and one["what"] == other["what"]
    return same and one["source"].split(",")[0] == other["source"].split(",")[0]


def _sheet() -> Sheet:
    """`my_runs.csv`; raises `ValueError` if it cannot be read completely."""
    sheet = read_sheet(places.home() / "my_runs.csv", COLUMNS, ("predicted", "measured"))
    if not sheet.columns and not sheet.rows:
        return Sheet(list(COLUMNS), [])
    if "lesson" not in sheet.columns:
        raise ValueError("it has no column lesson")
    at = sheet.columns.index("lesson")
    for cells in sheet.rows:  # a spreadsheet turns lesson 07 into the number 7
        cells[at] = cells[at].zfill(2) if cells[at].isdecimal() else cells[at]
    return sheet


def _keep(path: Path, why: str) -> None:
    say("Note.", f"{path.name} {why}. The original file is kept as {back_up(path).name}.")
