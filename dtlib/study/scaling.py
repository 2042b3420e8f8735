"""`dtlib study strong|weak`: the same model on more and more ranks, each run several times.

Strong scaling keeps the global batch, weak scaling the batch of a rank. With T(N) the time of a
step on N ranks the efficiency is T(1) / (N·T(N)) in the one and T(1) / T(N) in the other, and 1 in
both where nothing is lost. T(1) is that of one process with no communication at all, the strategy
`single`.
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
"""Five under the profiler, so that twenty are timed."""

EFFICIENCY = (
    "study", "world_size", "repeats", "global_batch", "step_time_s", "step_time_s_min",
    "step_time_s_max", "throughput", "throughput_unit", "speedup", "efficiency", "efficiency_min",
    "efficiency_max", "comm_share", "data_share", "device",
)  # fmt: skip
"""Medians over the repeats; each repeat's efficiency is against the same repeat on one rank."""


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
            config.plan(number)  # a batch that these ranks cannot share is refused at the start
            yield Planned(f"ranks{number}{REPEAT}{repeat}", config)


def refuse_no_repeat(repeats: int) -> None:
    """Refuse a study of no repeat."""
    if repeats < 1:
        raise BadInput(f"--repeats is {repeats}; use at least 1, or 3 to see the spread.")


def name(row: Mapping[str, Any]) -> str:
    """Return the name of the run that a row is of."""
    return f"ranks{row['world_size']}{REPEAT}{row['repeat']}"


def efficiency(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row of `EFFICIENCY` for each number of ranks.

    Parameters
    ----------
    rows
        Of one study, as `tables.of_runs` gives them.

    Raises
    ------
    BadInput
        When the rows are of both kinds, have none of one rank, or a run has no timed step.
    """
    return [
        _of_ranks([row for row in rows if row["world_size"] == number], values)
        for number, values in paired(rows).items()
    ]


def paired(rows: Sequence[Mapping[str, Any]]) -> dict[int, list[float]]:
    """Return the efficiencies of all repeats by number of ranks, each against its own repeat.

    A number of ranks without a repeat that one rank has, too, is left out.

    Raises `BadInput` as `efficiency`.
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
    """Return what the tables say of a setting's runs: how many, and medians of what is known."""
    found: Row = {"repeats": len(rows)}
    for column in ("study", "world_size", "throughput_unit", "device"):
        found[column] = rows[0][column]
    for column in ("step_time_s", "throughput", "comm_share", "data_share"):
        known = [row[column] for row in rows if row[column] is not None]
        found[column] = statistics.median(known) if known else None
    return found
