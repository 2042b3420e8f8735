"""`dtlib study strong|weak`: the same model on more and more ranks, each run several times.

Strong scaling keeps the global batch fixed, and weak scaling the batch per rank. If T(N) is the
time of a step on N ranks, the efficiency of strong scaling is T(1) / (N·T(N)), that of weak scaling
is T(1) / T(N), and both are 1 if nothing is lost. T(1) is the time of one process without any
communication, the strategy `single`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.study.family import Planned
from dtlib.study.tables import REPEAT, Row, refuse_untimed

KINDS = ("strong", "weak")
STEPS = 25
"""The profiler takes five, so that twenty are timed."""

EFFICIENCY = (
    "study", "world_size", "repeats", "global_batch", "step_time_s", "step_time_s_min",
    "step_time_s_max", "throughput", "throughput_unit", "speedup", "efficiency", "efficiency_min",
    "efficiency_max", "comm_share", "data_share", "device",
)  # fmt: skip
"""Medians over the repeats; each efficiency is relative to the same repeat on one rank."""


def plans(
    kind: str, settings: Mapping[str, Any], ranks: Sequence[int], repeats: int
) -> Iterator[Planned]:
    """Yield the runs of a study, one whole turn over the numbers of ranks per repeat.

    That way, whatever else the machine does affects all numbers of ranks equally.

    Parameters
    ----------
    kind
        "strong" or "weak".
    settings
        Those of `RunConfig` that all runs share; for weak, `global_batch` is that of one rank.
    ranks
        Numbers of ranks; one rank is always included.
    repeats
        How many times each run is done.

    Raises
    ------
    BadInput
        For fewer than one repeat, or settings that no run can have.
    """
    refuse_no_repeat(repeats)
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
            config.plan(number)  # refuses a batch that the ranks can't share
            yield Planned(f"ranks{number}{REPEAT}{repeat}", config)


def refuse_no_repeat(repeats: int) -> None:
    """Refuse a study without repeats."""
    if repeats < 1:
        raise BadInput(f"--repeats is {repeats}; use at least 1, or 3 to see the spread.")


def name(row: Mapping[str, Any]) -> str:
    """Return the name of a row's run."""
    return f"ranks{row['world_size']}{REPEAT}{row['repeat']}"


def efficiency(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row of `EFFICIENCY` for each number of ranks.

    Parameters
    ----------
    rows
        The rows of one study, as `tables.of_runs` returns them.

    Raises
    ------
    BadInput
        When the rows mix both kinds, none is of one rank, or a run has no timed step.
    """
    return [
        _of_ranks([row for row in rows if row["world_size"] == number], values)
        for number, values in paired(rows).items()
    ]


def paired(rows: Sequence[Mapping[str, Any]]) -> dict[int, list[float]]:
    """Return the efficiencies of all repeats by number of ranks, each relative to its own repeat.

    A number of ranks is left out if it shares no repeat with one rank.

    Raises `BadInput` like `efficiency`.
    """
    kinds = {row["study"] for row in rows}
    if len(kinds) != 1 or not kinds <= set(KINDS):
        raise BadInput(
            f"these runs belong to the studies {', '.join(map(str, sorted(kinds))) or 'none'};"
            " an efficiency is defined for strong or for weak scaling, never for a mix of both."
        )
    refuse_untimed(rows)
    one = {row["repeat"]: row["step_time_s"] for row in rows if row["world_size"] == 1}
    if not one:
        raise BadInput("no run on one rank is done, and every efficiency is relative to that run.")
    found: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: (row["world_size"], row["repeat"])):
        if row["repeat"] in one:
            more = row["world_size"] if row["study"] == "strong" else 1
            value = one[row["repeat"]] / (more * row["step_time_s"])
            found.setdefault(row["world_size"], []).append(value)
    return found


def _of_ranks(rows: Sequence[Mapping[str, Any]], values: Sequence[float]) -> Row:
    seconds, middle = [row["step_time_s"] for row in rows], statistics.median(values)
    found = {
        **of_repeats(rows),
        "global_batch": rows[0]["global_batch"],
        "step_time_s_min": min(seconds),
        "step_time_s_max": max(seconds),
        "speedup": middle * rows[0]["world_size"],
        "efficiency": middle,
        "efficiency_min": min(values),
        "efficiency_max": max(values),
    }
    return {column: found[column] for column in EFFICIENCY}


def of_repeats(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Return a table's columns for a setting's runs: how many, and medians of known values."""
    found: Row = {"repeats": len(rows)}
    for column in ("study", "world_size", "throughput_unit", "device"):
        found[column] = rows[0][column]
    for column in ("step_time_s", "throughput", "comm_share", "data_share"):
        known = [row[column] for row in rows if row[column] is not None]
        found[column] = statistics.median(known) if known else None
    return found
