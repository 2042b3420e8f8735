"""What a student has measured: the tables of studies, the rows of `my_runs.csv`, the records."""

from __future__ import annotations

import dataclasses
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput
from dtlib.learn import history
from dtlib.learn.recorded import processor
from dtlib.study import family, scaling, sensitivity, tables
from dtlib.training.record import Run

KINDS = (*scaling.KINDS, sensitivity.KIND)
SHARES = ("compute", "communication", "input", "idle")
"""Where the time of a step goes; on each rank the four add up to 1."""

# Settings of the runs that a reader needs to repeat them, besides the columns of the table.
SETTINGS = ("steps", "optimizer", "lr", "data", "max_length", "num_samples", "threads", "seed")

Row = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """Everything that the documents may state, and nothing else.

    Attributes
    ----------
    studies
        By kind ("strong", "weak", "sensitivity"), the rows of its table, one for each run.
    kept
        The rows of `my_runs.csv`.
    machine
        The processor or GPU, as far as it is known.
    versions
        By package, of the process that ran the studies.
    settings
        By kind, those of `SETTINGS` that its runs had, and `parameters` of the model.
    shares
        For each profiled run on the most ranks of a scaling study: `study`, `world_size`,
        `repeat`, and the mean over its ranks of each of `SHARES`.
    commands
        The command that repeats each study.
    """

    studies: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    kept: Sequence[Row] = ()
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shares: Sequence[Row] = ()
    commands: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return what `Evidence(**…)` takes, in types that JSON has."""
        return dataclasses.asdict(self)


def studies_in(folder: Path) -> dict[str, list[Path]]:
    """Return the CSV files of the studies in a folder and below it, by kind.

    Raises `BadInput` when there is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}: give the folder in which your studies are.")
    found = {kind: sorted(folder.rglob(f"{kind}.csv")) for kind in KINDS}
    return {kind: paths for kind, paths in found.items() if paths}


def gather(folders: Sequence[Path]) -> Evidence:
    """Collect the studies of some folders, and the student's `my_runs.csv`.

    Raises
    ------
    BadInput
        When a folder holds no study, two studies are of one kind, or a table cannot be read.
    """
    places: dict[str, Path] = {}
    for folder in folders:
        inside = studies_in(folder)
        if not inside:
            raise BadInput(
                f"{folder} holds no table of a study: make one with `dtlib study strong text --out"
                f" {folder / 'strong'}`, and another with `weak`."
            )
        for kind, paths in inside.items():
            several = [*([places[kind]] if kind in places else []), *paths]
            if len(several) > 1:
                raise BadInput(
                    f"there are {len(several)} studies of kind {kind},"
                    f" {' and '.join(str(path.parent) for path in several[:2])}: give the folder of"
                    " each study that you mean, so that each kind occurs once."
                )
            places[kind] = paths[0]
    studies = {kind: tables.read(path) for kind, path in places.items()}
    runs = {kind: _runs(path.parent, studies[kind]) for kind, path in places.items()}
    everything = [run for some in runs.values() for run in some]
    return Evidence(
        studies=studies,
        kept=history.runs(),
        machine=_machine([row for rows in studies.values() for row in rows]),
        versions=_versions(everything),
        settings={kind: _settings(some) for kind, some in runs.items() if some},
        shares=[share for kind in scaling.KINDS for share in _shares(kind, runs.get(kind, []))],
        commands=[command(path.parent) for path in places.values()],
    )


def command(folder: Path) -> str:
    """Return the command that repeats a study, from its `study.json`; "" if there is none."""
    told = family.read_folder(folder)
    if not told:
        return ""
    names = told.pop("runs", [])
    words = ["dtlib study", told.pop("study"), told.pop("task", "")]
    parts = [tables.split(name) for name in names if tables.REPEAT in name]
    numbers = sorted({int(what.removeprefix("ranks")) for what, _ in parts if what[:5] == "ranks"})
    if numbers:
        words.append("--ranks " + ",".join(map(str, numbers)))
    if parts:
        words.append(f"--repeats {1 + max(repeat for _, repeat in parts)}")
    for key, value in told.items():
        said = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words.append(f"--{key.replace('_', '-')} {said}")
    return " ".join(word for word in words if word)


def _runs(folder: Path, rows: Sequence[Row]) -> list[Run]:
    """Return those runs of a table whose records still lie beside it."""
    names = family.read_folder(folder).get("runs") or [
        f"ranks{row['world_size']}{tables.REPEAT}{row['repeat']}" for row in rows
    ]
    return [run for run in family.finished(folder, names).values() if run.summary]


def _machine(rows: Sequence[Row]) -> str:
    """Return the devices of the runs; of a CPU, its name if the runs were made on this machine."""
    devices = sorted({str(row["device"]) for row in rows if row["device"]})
    here = {row["host"] for row in rows} == {platform.node()}
    return processor() if devices == ["cpu"] and here else ", ".join(devices)


def _versions(runs: Sequence[Run]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, number in (run.summary.get("versions") or {}).items():
            found.setdefault(name, set()).add(str(number))
    return {name: " and ".join(sorted(numbers)) for name, numbers in sorted(found.items())}


def _settings(runs: Sequence[Run]) -> dict[str, Any]:
    found = {name: runs[0].config.get(name) for name in SETTINGS}
    found["parameters"] = runs[0].summary.get("parameters")
    return {name: value for name, value in found.items() if value is not None}


def _shares(kind: str, runs: Sequence[Run]) -> list[Row]:
    """Return the shares of the runs on the most ranks, the mean over the ranks of each."""
    profiled = [run for run in runs if (run.summary.get("profile") or {}).get("shares")]
    most = max((run.summary["world_size"] for run in profiled), default=0)
    found = []
    for run in profiled:
        if run.summary["world_size"] != most:
            continue
        ranks = run.summary["profile"]["shares"]
        row: Row = {"study": kind, "world_size": most, "repeat": tables.split(run.folder.name)[1]}
        row |= {name: statistics.fmean(rank[name] for rank in ranks) for name in SHARES}
        found.append(row)
    return found
