"""What the rows of `my_runs.csv` and a sensitivity study show: gains, and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.errors import BadInput, did_you_mean
from dtlib.learn.history import NOISE
from dtlib.study import sensitivity
from dtlib.study.capstone import review
from dtlib.study.capstone.evidence import Evidence

Content = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
MOST = 8  # predictions that a page has room for


def helped(evidence: Evidence, wanted: Sequence[str]) -> Content:
    """Return the gains that are on record, or what would give them."""
    rows = [_kept_line(row) for row in chosen(evidence.kept, wanted)]
    for row in _levers(evidence.studies.get(sensitivity.KIND, ())):
        rows.append(row)
    if not rows:
        return {"missing": "No gain is on record here; lessons 21 and 22 measure some."}
    return {"missing": "", "table": {"head": ["what", "result", "where", "source"], "rows": rows}}


def chosen(kept: Rows, wanted: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the rows of `my_runs.csv` that the paper shows: those named, or those of gains.

    Raises `BadInput` when a named row does not exist.
    """
    known = {row["what"]: row for row in kept}
    for what in wanted:
        if what not in known:
            raise BadInput(f"my_runs.csv has no row “{what}”.{did_you_mean(what, known)}")
    if wanted:
        return [known[what] for what in wanted]
    return [row for row in kept if row["what"].startswith("gain")]


def _kept_line(row: Mapping[str, Any]) -> list[str]:
    source = row["source"].removesuffix(NOISE)
    said = _value(row)
    if row["source"].endswith(NOISE):
        said += "; within the noise, so no result"
    return [row["what"], said, f"lesson {row['lesson']}", source]


def _value(row: Mapping[str, Any]) -> str:
    """Return what was found, with four digits at most; some results are words."""
    found = review.number(row["measured"])
    value = row["measured"] if found is None else f"{found:.4g}"
    return f"{value} {row['unit']}".strip()


def _levers(rows: Rows) -> list[list[str]]:
    """Return a line for each setting of a sensitivity study, except the first."""
    found = []
    axes = sensitivity.varying(rows)
    for row in sensitivity.best(rows) if rows else []:
        if row["verdict"] == sensitivity.FIRST:
            continue
        name = sensitivity.setting_name(row, axes)
        said = f"{row['gain']:+.0%} ({row['gain_min']:+.0%} to {row['gain_max']:+.0%})"
        said += "" if row["verdict"] != sensitivity.NOISE else "; within the noise, so no result"
        found.append([name, said, "sensitivity study", "measured"])
    return found


def predictions(kept: Rows) -> Content:
    """Return the kept numbers that the student had predicted, beside what was found."""
    lines = [
        [row["what"], row["predicted"], _value(row),
         f"lesson {row['lesson']}", row["source"].removesuffix(NOISE)]
        for row in kept
        if row["predicted"]
    ]  # fmt: skip
    if not lines:
        return {"missing": "my_runs.csv has no prediction; lessons ask for them before they run."}
    head = ["what", "predicted", "found", "where", "source"]
    return {"missing": "", "table": {"head": head, "rows": lines[:MOST]}}
