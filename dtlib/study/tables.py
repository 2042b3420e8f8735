"""Tidy tables of runs as CSV files: one row per run, with the columns that all studies have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtlib.config.sheets import read_sheet, with_point
from dtlib.errors import BadInput, in_words
from dtlib.training.record import COLUMNS, Run

# Text that may look like a number: a strategy is called infinity, a commit may be 12e4.
TEXT = (
    "study", "task", "model", "strategy", "precision", "throughput_unit", "commit", "host",
    "device", "job_id", "measured_or_simulated", "status", "because", "mesh",
)  # fmt: skip

REPEAT = "-repeat"
"""Separates a run's setting from its repeat in the name of its folder."""

Row = dict[str, Any]


def of_runs(kind: str, runs: Mapping[str, Run]) -> list[Row]:
    """Return a row of `record.COLUMNS` for each run of a study, with equal settings together.

    `runs` are by name, in the planned order; a name ends in `REPEAT` and a number.
    """
    first = list(dict.fromkeys(split(name)[0] for name in runs))
    names = sorted(runs, key=lambda name: (first.index(split(name)[0]), split(name)[1]))
    return [{**runs[name].row(), "study": kind, "repeat": split(name)[1]} for name in names]


def split(name: str) -> tuple[str, int]:
    """Split a run's name into its setting and the number of its repeat."""
    what, _, repeat = name.rpartition(REPEAT)
    return what, int(repeat)


def refuse_untimed(rows: Iterable[Mapping[str, Any]]) -> None:
    """Refuse rows without a step time."""
    if any(row["step_time_s"] is None for row in rows):
        raise BadInput("a run has no timed step: give it more --steps than the timing leaves out.")


def read(path: Path, needed: Sequence[str] = COLUMNS) -> list[Row]:
    """Read a CSV file of a study; numbers become int or float, empty cells None.

    Parameters
    ----------
    needed
        Columns that the file must have.

    Raises
    ------
    BadInput
        When the file can't be read, isn't such a table, or has no rows.
    """
    try:
        sheet = read_sheet(path, COLUMNS)
        missing = [f"column {name}" for name in needed if name not in sheet.columns]
        if missing or not sheet.rows:
            raise ValueError(f"it has no {[*missing, 'rows'][0]}")
        point = str if sheet.plain else with_point
        return [
            {key: _value(key, text, point) for key, text in row.items()} for row in sheet.dicts()
        ]
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path} cannot be read as the table of a study: {in_words(error)}; name a study's"
            " folder, or the CSV file in it that is called like the study (strong.csv)."
        ) from error


def _value(column: str, text: str, point: Callable[[str], str]) -> Any:
    if not text or column in TEXT:
        return text or None
    text = point(text)
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise ValueError(f"{column} is {text!r}, which is no number") from None
