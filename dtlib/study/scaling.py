"""`dtlib study strong|weak`: the same model on more and more ranks, each run several times.

Strong scaling keeps the global batch, weak scaling the batch of a rank. With T(N) the time of a
step on N ranks the efficiency is T(1) / (N·T(N)) in the one and T(1) / T(N) in the other, and 1 at
best in both. T(1) is that of one process with no communication at all, the strategy `single`.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.record import COLUMNS
from dtlib.study.family import Outcome, Planned

KINDS = ("strong", "weak")
STEPS = 25
"""Five under the profiler, so that twenty are timed."""

EFFICIENCY = (
    "study", "world_size", "repeats", "global_batch", "step_time_s", "step_time_s_min",
    "step_time_s_max", "throughput", "throughput_unit", "speedup", "efficiency", "efficiency_min",
    "efficiency_max", "comm_share", "data_share",
)  # fmt: skip
"""Medians over the repeats; each repeat's efficiency is against the same repeat on one rank."""

Row = dict[str, Any]


def plans(
    kind: str, settings: Mapping[str, Any], ranks: Sequence[int], repeats: int
) -> Iterator[Planned]:
    """Yield the runs of a study, a whole turn over the ranks for each repeat.

    So what else the machine does meanwhile meets all numbers of ranks alike.

    Parameters
    ----------
    kind
        "strong" or "weak".
    settings
        Those of `RunConfig` that all runs share; `global_batch` is that of one rank if weak.
    ranks
        Numbers of ranks; one rank is always among them.
    repeats
        How often each is run.

    Raises
    ------
    BadInput
        For fewer than one repeat, or settings that no run can have.
    """
    if repeats < 1:
        raise BadInput(f"--repeats is {repeats}; it must be at least 1, and 3 show a spread.")
    shared = {"steps": STEPS, "threads": 1, "strategy": "ddp", "profile": True, **settings}
    batch = RunConfig.from_mapping({**shared, "ranks": 1}).plan(1).global_batch
    for repeat in range(repeats):
        for number in sorted({1, *ranks}):
            own: Row = {"ranks": number}
            if number == 1:
                own["strategy"] = "single"
            if kind == "weak":
                own["global_batch"] = batch * number
            config = RunConfig.from_mapping({**shared, **own})
            yield Planned(f"ranks{number}-repeat{repeat}", config)


def tidy(outcomes: Iterable[Outcome], kind: str) -> list[Row]:
    """Return a row of `record.COLUMNS` for each run that is done."""
    rows = []
    for outcome in outcomes:
        if outcome.run is not None:
            repeat = int(outcome.planned.name.rpartition("repeat")[2])
            rows.append({**outcome.run.row(), "study": kind, "repeat": repeat})
    return rows


def efficiency(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row of `EFFICIENCY` for each number of ranks.

    Parameters
    ----------
    rows
        Of one study, as `tidy` gives them.

    Raises
    ------
    BadInput
        When the rows are of both kinds, lack one rank, or a run has no timed step.
    """
    kinds = {row["study"] for row in rows}
    if len(kinds) != 1 or not kinds <= set(KINDS):
        raise BadInput(
            f"these runs are of the studies {', '.join(map(str, sorted(kinds))) or 'none'}; an"
            " efficiency is that of strong or of weak scaling, never of both."
        )
    times = {(row["world_size"], row["repeat"]): row["step_time_s"] for row in rows}
    if any(seconds is None for seconds in times.values()):
        raise BadInput("a run has no timed step: give it more --steps than are left out of timing.")
    repeats = sorted({repeat for number, repeat in times if number == 1})
    if not repeats:
        raise BadInput("no run on one rank is done, and every efficiency is against that one.")
    return [
        _of_ranks(number, [row for row in rows if row["world_size"] == number], times)
        for number in sorted({number for number, _ in times})
    ]


def _of_ranks(number: int, rows: Sequence[Mapping[str, Any]], times: Mapping[Any, float]) -> Row:
    kind = rows[0]["study"]
    seconds = [row["step_time_s"] for row in rows]
    more = number if kind == "strong" else 1
    paired = [
        times[1, row["repeat"]] / (more * row["step_time_s"])
        for row in rows
        if (1, row["repeat"]) in times
    ]
    middle = statistics.median(paired)
    return {
        "study": kind,
        "world_size": number,
        "repeats": len(rows),
        "global_batch": rows[0]["global_batch"],
        "step_time_s": statistics.median(seconds),
        "step_time_s_min": min(seconds),
        "step_time_s_max": max(seconds),
        "throughput": statistics.median(row["throughput"] for row in rows),
        "throughput_unit": rows[0]["throughput_unit"],
        "speedup": middle * number,
        "efficiency": middle,
        "efficiency_min": min(paired),
        "efficiency_max": max(paired),
        "comm_share": _median_of(rows, "comm_share"),
        "data_share": _median_of(rows, "data_share"),
    }


def _median_of(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    known = [row[name] for row in rows if row[name] is not None]
    return statistics.median(known) if known else None


def read(path: Path) -> list[Row]:
    """Read a table of runs that a study wrote.

    Raises
    ------
    BadInput
        When it cannot be read, or has other columns.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows: list[Row] = [dict(row) for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read ({error}); name the CSV file of a study.") from error
    missing = [name for name in COLUMNS if name not in (rows or [{}])[0]]
    if missing:
        raise BadInput(f"{path} has no column {missing[0]}; name the CSV file of a scaling study.")
    for row in rows:
        for name in ("world_size", "repeat", "global_batch"):
            row[name] = int(row[name])
        for name in ("step_time_s", "throughput", "comm_share", "data_share"):
            row[name] = float(row[name]) if row[name] else None
    return rows
