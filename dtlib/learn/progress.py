"""What a student has done so far: `.dtlib/progress.json` and `my_runs.csv` beside the notebooks.

Two notebooks may be open at once, so every change is read, made and written under one lock, and a
file is replaced whole: a kernel that is killed leaves the old file or the new one.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dtlib.config.files import write_atomically
from dtlib.learn import places

COLUMNS = ("lesson", "what", "predicted", "measured", "unit", "source")


def _folder() -> Path:
    return places.home() / ".dtlib"


@contextlib.contextmanager
def _locked() -> Iterator[Path]:
    folder = _folder()
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder


def _load(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a file that somebody edited must not stop a lesson
        return {}
    return state if isinstance(state, dict) else {}


def read(*place: str) -> dict[str, Any]:
    """What is kept for a lesson, a kind of it (`"exercises"`), or one key; `{}` when nothing is."""
    found: Any = _load(_folder() / "progress.json")
    for part in place:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def change(lesson: str, kind: str, key: str) -> Iterator[dict[str, Any]]:
    """Change what is kept for one key, in place, under the lock."""
    with _locked() as folder:
        path = folder / "progress.json"
        state = _load(path)
        entry = state
        for part in (lesson, kind, key):
            if not isinstance(entry.get(part), dict):
                entry[part] = {}
            entry = entry[part]
        yield entry
        write_atomically(
            path, json.dumps(state, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        )


def runs() -> list[dict[str, str]]:
    """The rows of `my_runs.csv`, in the order in which they were made."""
    path = places.home() / "my_runs.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{c: row.get(c) or "" for c in COLUMNS} for row in csv.DictReader(file)]


def add_run(row: dict[str, Any]) -> None:
    """Add a row; running the same cell again replaces it (same lesson, what and source)."""
    new = {c: "" if row.get(c) is None else str(row[c]) for c in COLUMNS}
    same = ("lesson", "what", "source")
    with _locked():
        rows = [r for r in runs() if any(r[c] != new[c] for c in same)]
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, new])
        write_atomically(places.home() / "my_runs.csv", text.getvalue())
