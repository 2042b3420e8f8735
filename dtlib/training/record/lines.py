"""JSON lines that survive kills and resumes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtlib.config.files import write_atomically
from dtlib.config.terminal import to_json
from dtlib.errors import BadInput, in_words


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines, one per step; a last line that a kill cut short is ignored.

    Raises `BadInput` when a line isn't a JSON object.
    """
    if not path.exists():
        return []
    lines = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        try:
            lines.append(restore(json.loads(line)))
        except (ValueError, AttributeError) as error:
            if not line.endswith(b"\n"):  # only checked here: an editor may omit the last newline
                continue
            raise BadInput(
                f"line {number} of {path} is not the record of a step: copy the file and "
                "correct that line, or start the run in another --out; this folder can stay."
            ) from error
    return lines


def read_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises `BadInput` when it holds something else, or can't be read.
    """
    try:
        return restore(json.loads(path.read_bytes()))
    except (OSError, ValueError, AttributeError) as error:
        raise BadInput(
            f"{path} cannot be read as the record of a run ({in_words(error)}): give another"
            " folder, or start the run in another --out."
        ) from error


def settings_of(folder: Path) -> dict[str, Any]:
    """Return the settings that a run's folder records, or none where they can't be read."""
    try:
        return read_object(folder / "config.json")
    except BadInput:
        return {}


class Lines:
    """A file of JSON lines that a resumed run continues."""

    def __init__(self, path: Path, resumed_from: int | None) -> None:
        kept = [line for line in read_lines(path) if line["step"] <= (resumed_from or 0)]
        write_atomically(path, "".join(to_json(line) + "\n" for line in kept))
        self.file = path.open("a", encoding="utf-8")

    def add(self, line: Mapping[str, Any]) -> None:
        # Each line is written at once, so a rank killed between two steps loses none.
        self.file.write(to_json(line) + "\n")
        self.file.flush()


def restore(line: dict[str, Any]) -> dict[str, Any]:
    names = ("nan", "inf", "-inf")
    return {key: float(item) if item in names else item for key, item in line.items()}
