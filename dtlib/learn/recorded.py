"""Results from another machine: kept in a file, and shown with their origin.

A lesson whose needs are not met shows what another machine measured. `NN_name.json`, in the folder
`records` of lesson NN's room, holds the results and where they were measured; a table of runs may
be `NN_name.csv`, whose columns `device, versions, date, commit` say the same for each row.
"""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from dtlib.config.files import write_atomically
from dtlib.errors import BadInput, did_you_mean
from dtlib.learn.show import say
from dtlib.learn.source import lessons
from dtlib.training.record.origin import commit

ABOUT = ("device", "versions", "date", "commit")


class Recorded(Mapping[str, Any]):
    """Recorded results by name, with the machine and the date.

    Attributes
    ----------
    about
        `device`, `versions`, `date` and `commit` of the measurement.
    """

    def __init__(self, about: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        self.about = dict(about)
        self._results = dict(results)

    def __getitem__(self, name: str) -> Any:
        return self._results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __str__(self) -> str:
        on, versions, when, made_by = (self.about[key] for key in ABOUT)
        if isinstance(versions, Mapping):
            versions = ", ".join(f"{name} {number}" for name, number in versions.items())
        return f"Measured on {on}, {when}, with {versions}; commit {str(made_by)[:12]}."


def recorded(name: str) -> Recorded:
    """Read recorded results, and print in one line where they were measured.

    Parameters
    ----------
    name
        The file's name, without `.json` or `.csv`.

    Returns
    -------
    Recorded
        The results by name; those of a CSV file are a list of rows under `"rows"`.

    Raises
    ------
    BadInput
        When there is no such record, or it does not say where it was measured.
    """
    found = _read(_folder(name), name)
    say("Recorded results.", str(found))
    return found


def keep_record(name: str, results: Mapping[str, Any], packages: tuple[str, ...] = ()) -> Path:
    """Save results that were just measured here as the record `name`.

    Parameters
    ----------
    results
        Values that JSON can hold: numbers, strings, lists and dicts of them.
    packages
        Packages whose versions matter besides Python's and torch's.

    Returns
    -------
    Path
        The file.
    """
    from importlib.metadata import version

    versions = {"Python": platform.python_version()}
    versions |= {package: version(package) for package in ("torch", *packages)}
    about = {"device": device(), "versions": versions, "date": date.today().isoformat()}
    about["commit"] = commit() or "unknown"
    path = _folder(name) / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, json.dumps({"about": about, "results": dict(results)}, indent=1) + "\n")
    return path


def device() -> str:
    """Return the GPU's name, or the processor's name and the number of cores."""
    import torch

    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    return processor()


def processor() -> str:
    """Return the number of cores and the processor's name."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass  # on macOS platform.processor() has it
    return f"{os.cpu_count()} CPU cores ({name})"


def _folder(name: str) -> Path:
    """The folder of a record: in the room of the lesson whose number its name begins with."""
    rooms = [lesson.room for lesson in lessons() if name.startswith(f"{lesson.number}_")]
    if not rooms:
        raise BadInput(
            f"the record {name!r} belongs to no lesson here: its name must begin with its "
            'lesson\'s number, as in "17_deepspeed".'
        )
    return rooms[0] / "records"


def _read(folder: Path, name: str) -> Recorded:
    there = {path.stem: path for path in sorted(folder.glob("*.[cj]s*"))}
    path = there.get(name)
    if path is None:
        near = did_you_mean(name, list(there))
        raise BadInput(f"there is no record {name} in {folder}.{near}")
    try:
        text = path.read_text(encoding="utf-8")
        about, results = _from_csv(text) if path.suffix == ".csv" else _from_json(text)
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        what = f"{type(error).__name__}: {error}"
        raise BadInput(f"the record {path.name} cannot be read ({what}); make it again.") from None
    missing = [key for key in ABOUT if not about.get(key)]
    if missing:
        raise BadInput(f"the record {path.name} does not give its {', '.join(missing)}.")
    return Recorded(about, results)


def _from_json(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    content = json.loads(text)
    return dict(content["about"]), dict(content["results"])


def _from_csv(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    rows = list(csv.DictReader(text.splitlines()))
    said = {key: sorted({row.get(key) or "" for row in rows}) for key in ABOUT}
    about = {key: ", ".join(filter(None, values)) for key, values in said.items()}
    return about, {"rows": rows}
