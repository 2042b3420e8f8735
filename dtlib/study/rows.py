"""The tables of a study of strategies, as tidy rows for CSV files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dtlib.measure.ledger import KINDS, Page
from dtlib.study import tables
from dtlib.study.differences import COLLECTIVES, Line, compare
from dtlib.study.facts import Facts
from dtlib.study.family import Outcome
from dtlib.training.record import COLUMNS

HELD = ("parameters", "gradients", "optimizer", "fp32_copy", "activations")
"""The kinds in a table of bytes, each measured at the moment that the formula describes."""

LEDGER = (
    "mesh", "status", "because", "loss_minus_single",
    *(f"{kind}_bytes" for kind in KINDS), "gradients_most_bytes",
    *(f"predicted_{kind}_bytes" for kind in HELD),
    *(f"{name}_{what}" for name in COLLECTIVES for what in ("calls", "payload_bytes")),
    *(f"predicted_{name}_payload_bytes" for name in COLLECTIVES),
    "wire_bytes_derived", "unexplained_bytes",
)  # fmt: skip
"""Columns that a study has in addition to `record.COLUMNS`; all bytes are rank 0's."""

DIFFERENCES = (
    "strategy", "world_size", "mesh", "rank", "what", "predicted_bytes", "measured_bytes",
    "difference_bytes", "because",
)  # fmt: skip
UNEXPLAINED = "unexplained"


def tidy(outcomes: Iterable[Outcome], kind: str) -> list[dict[str, Any]]:
    """Return one row per run, with `record.COLUMNS` and `LEDGER`; unmeasured values are None."""
    everything = list(outcomes)
    single = [o.run.loss for o in everything if o.run and o.planned.config.strategy == "single"]
    rows = []
    for outcome in everything:
        row = dict.fromkeys([*COLUMNS, *LEDGER])
        config = outcome.planned.config
        row |= {"strategy": config.strategy, "world_size": config.ranks, "task": config.task}
        row["mesh"] = config.mesh
        row |= {"study": kind, "status": outcome.status, "because": outcome.because or None}
        if outcome.run is not None:
            row |= {**outcome.run.row(), "study": kind, "mesh": config.mesh}
            if single:
                row["loss_minus_single"] = outcome.run.loss - single[0]
            row |= _measured(Facts.of(outcome.run))
        rows.append(row)
    return rows


def _measured(facts: Facts) -> dict[str, Any]:
    page, lines = facts.page, compare(facts)
    found: dict[str, Any] = {f"{kind}_bytes": shown(page, kind) for kind in KINDS}
    found["gradients_most_bytes"] = page.most["gradients"]
    for line in lines:
        if line.what in HELD:
            found[f"predicted_{line.what}_bytes"] = line.predicted
        elif line.what in COLLECTIVES:
            found[f"predicted_{line.what}_payload_bytes"] = line.predicted
    for name in COLLECTIVES:
        tally = page.collectives.get(name)
        found[f"{name}_calls"] = tally.calls if tally else 0
        found[f"{name}_payload_bytes"] = tally.payload if tally else 0
    found["wire_bytes_derived"] = sum(tally.wire for tally in page.collectives.values())
    if lines:  # without a formula, no bytes count as explained or unexplained
        found["unexplained_bytes"] = sum(abs(line.unexplained) for line in lines)
    return found


def shown(page: Page, kind: str) -> int:
    """Return a kind's bytes for a table, at the moment that the formula describes."""
    moment = {
        "gradients": page.before_update, "padding": page.before_update,
        "activations": page.most, "communication": page.most,
    }.get(kind, page.between_steps)  # fmt: skip
    return moment.get(kind, 0)


def differences(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return a row for each difference between formula and measurement, on every rank."""
    rows = []
    for outcome in outcomes:
        pages = outcome.run.summary["ledger"] if outcome.run else []
        for rank in range(len(pages)):
            facts = Facts.of(outcome.run, rank)  # type: ignore[arg-type]
            for line in compare(facts):
                own = {"strategy": facts.strategy, "world_size": facts.ranks, "rank": rank}
                own["mesh"] = outcome.planned.config.mesh
                rows += [{**own, **row} for row in _named(line)]
    return rows


def _named(line: Line) -> list[dict[str, Any]]:
    both = {"predicted_bytes": line.predicted, "measured_bytes": line.measured}
    found = [{"difference_bytes": d.size, "because": d.because} for d in line.differences]
    if line.unexplained:
        found.append({"difference_bytes": line.unexplained, "because": UNEXPLAINED})
    found = found or [{"difference_bytes": 0, "because": "equal"}]
    return [{"what": line.what, **both, **each} for each in found]


def read(path: Path) -> list[dict[str, Any]]:
    """Read the table of a study of strategies; see `tables.read`. Older ones have no mesh."""
    needed = [name for name in LEDGER if name != "mesh"]
    return tables.read(path, ("strategy", "world_size", *needed))
