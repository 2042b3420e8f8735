"""Figures and texts of any study, from its CSV file alone; missing runs are named."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from dtlib.config.files import write_csv
from dtlib.errors import BadInput, counted, refuse_unknown
from dtlib.study import (
    family,
    reading,
    rows,
    scaling,
    scaling_view,
    sensitivity,
    sensitivity_view,
    strategies,
    tables,
    targets,
)
from dtlib.study.tables import REPEAT

Rows = Sequence[Mapping[str, Any]]
EFFICIENCY_CSV, BEST_CSV = "efficiency.csv", "best.csv"
STUDIES = (strategies.KIND, *scaling.KINDS, sensitivity.KIND)


def find(place: Path) -> Path:
    """Return the CSV file of a study: the one in the given folder, or the given file itself.

    Raises `BadInput` when the folder has none.
    """
    if not place.is_dir():
        return place
    inside = [place / f"{kind}.csv" for kind in STUDIES if (place / f"{kind}.csv").exists()]
    if not inside:
        missing = family.read_folder(place).get("runs", [])
        why = f"none of {counted(len(missing), 'run')} is done" if missing else "it holds no study"
        raise BadInput(f"{place} has no table to draw from: {why}; name a study's folder.")
    return inside[0]


def draw(place: Path) -> tuple[str, list[Path]]:
    """Draw a study's figures from its CSV file (or the one in its folder), into the same folder.

    Returns the table as text, with verdicts on the targets and the missing runs, and the files
    written, except the texts next to the figures. Raises `BadInput` when the file isn't a study's
    table.
    """
    path = find(place)
    kind = tables.read(path, ("study",))[0]["study"]  # the file may have been renamed
    refuse_unknown(f"kind of study in {path},", kind, STUDIES)
    ways = {sensitivity.KIND: _sensitivity, **dict.fromkeys(scaling.KINDS, _scaling)}
    return ways.get(kind, _strategies)(path)


def _strategies(path: Path) -> tuple[str, list[Path]]:
    found = rows.read(path)
    done = [row for row in found if row["status"] == "done"]
    names = [
        strategies.name_of(row["strategy"], row["world_size"], row.get("mesh")) for row in done
    ]
    judged = [*_targets(done, targets.of_shares), *missing_runs(path, names, [])]
    picture = path.with_suffix(".png")
    return reading.save_figure(found, picture, judged), [picture]


def _scaling(path: Path) -> tuple[str, list[Path]]:
    runs = tables.read(path)
    turns = product(*({row[name] for row in runs} for name in ("repeat", "world_size")))
    grid = [scaling.name({"repeat": repeat, "world_size": n}) for repeat, n in sorted(turns)]
    short = missing_runs(path, list(map(scaling.name, runs)), grid)
    if not any(row["world_size"] == 1 for row in runs):
        return "\n".join(["No efficiency yet: no run on one rank is done.", *short]), []
    found = scaling.efficiency(runs)
    write_csv(path.with_name(EFFICIENCY_CSV), scaling.EFFICIENCY, found)
    judged = [*_targets(runs, targets.of_scaling), *short]
    picture = path.with_suffix(".png")
    text = scaling_view.save(found, picture, _cores(runs), judged)
    return text, [path.with_name(EFFICIENCY_CSV), picture]


def _sensitivity(path: Path) -> tuple[str, list[Path]]:
    runs = tables.read(path)
    told = family.read_folder(path.parent)
    axes = [axis for axis in sensitivity.AXES if isinstance(told.get(axis), list)]
    axes = axes or sensitivity.varying(runs)
    settings = {sensitivity.setting_name(row, axes): None for row in runs}
    turns = product(sorted({row["repeat"] for row in runs}), settings)
    done = [f"{sensitivity.setting_name(row, axes)}{REPEAT}{row['repeat']}" for row in runs]
    short = missing_runs(path, done, [f"{one}{REPEAT}{repeat}" for repeat, one in turns])
    first = tables.split(told["runs"][0])[0] if told.get("runs") else next(iter(settings))
    if first not in settings or len(settings) < 2:
        why = f"No gain yet: it takes finished runs of {first} and of another setting."
        return "\n".join([why, *short]), []
    found = sensitivity.best(runs)
    by_name = sensitivity.by_setting(runs)
    best = by_name[sensitivity.setting_name(found[0], sensitivity.varying(runs))]
    gains = sensitivity.gains(next(iter(by_name.values())), best)
    gains = [] if found[0]["verdict"] == sensitivity.FIRST else gains
    write_csv(path.with_name(BEST_CSV), sensitivity.BEST, found)
    judged = [*_targets(runs, lambda _: targets.of_sensitivity(gains, best)), *short]
    picture = path.with_suffix(".png")
    text = sensitivity_view.save(found, runs, picture, judged)
    names = (path.with_name(BEST_CSV), picture, path.with_name(sensitivity_view.BARS))
    return text, list(names)


def _targets(runs: Rows, judge: Callable[[Rows], list[str]]) -> Iterator[str]:
    where = ", ".join(sorted({str(row["device"]) for row in runs if row["device"]}))
    yield f"Targets, which were set for GPUs; measured on {where or 'an unknown device'}:"
    yield from (f"  {line}" for line in judge(runs))


def _cores(runs: Rows) -> int | None:
    """Return how many cores the ranks shared, if known: only for CPU runs on this machine."""
    here = all(row["host"] in (None, platform.node()) for row in runs)
    return os.cpu_count() if here and all(row["device"] in (None, "cpu") for row in runs) else None


def missing_runs(path: Path, done: Sequence[str], grid: Sequence[str]) -> list[str]:
    """Return a sentence that names the runs missing from a table; an empty list if none are.

    `done` names the runs in it. `study.json` next to it lists all runs; without it, `grid` does.
    """
    names = family.read_folder(path.parent).get("runs") or grid
    missing = [name for name in names if name not in set(done)]
    if not missing:
        return []
    verb = "is" if len(missing) == 1 else "are"
    return [
        f"{len(missing)} of {counted(len(names), 'run')} {verb} missing: {', '.join(missing)};"
        " start the same study again to do them."
    ]
