"""A study: a family of runs in one folder; each is done once, however often the study is started.

`study.json` holds the study's settings and the names of its runs; each run has a folder of its
name.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib.config import RunConfig
from dtlib.config.files import write_atomically
from dtlib.errors import BadInput, DtlibError, Stopped, Unavailable
from dtlib.training import start
from dtlib.training.record import Run, to_json
from dtlib.training.record.lines import read_object

FILE = "study.json"


@dataclass(frozen=True)
class Planned:
    """One run of a study: its name, which is also its folder's, and its settings."""

    name: str
    config: RunConfig


@dataclass(frozen=True)
class Outcome:
    """The outcome of a planned run.

    Attributes
    ----------
    run
        Its records; None if there are none.
    status
        "done", "unavailable" (something is missing here), "refused" (the strategy doesn't allow
        the settings) or "failed".
    because
        The sentence that says why it isn't done, and what to do.
    """

    planned: Planned
    run: Run | None = None
    status: str = "done"
    because: str = ""


def open_folder(
    out: Path, kind: str, settings: Mapping[str, Any], names: Sequence[str] = ()
) -> None:
    """Create the folder of a study, or open it again; several processes may do so at once.

    Parameters
    ----------
    out
        The folder.
    kind
        The study's kind.
    settings
        The settings that must stay the same when it is continued.
    names
        The names of its runs, which are added to those it already has.

    Raises
    ------
    BadInput
        When it holds a study with other settings, whose runs would mix with these.
    """
    wanted = {"study": kind, **{key: value for key, value in settings.items() if value is not None}}
    wanted = json.loads(to_json(wanted))
    found = read_folder(out)
    before = found.pop("runs", [])
    for key in sorted(found.keys() | wanted.keys()) if found else ():
        if found.get(key) != wanted.get(key):
            raise BadInput(
                f"the study in {out} has {key} {_shown(found.get(key))} and this one has"
                f" {_shown(wanted.get(key))}; use the same settings, or choose another --out."
            )
    runs = list(dict.fromkeys([*before, *names]))
    if not found or runs != before:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / FILE, to_json({**wanted, "runs": runs}, indent=2) + "\n")


def begin(out: Path) -> Path:
    """Empty a study's folder, and return it; a requeued job keeps its runs and continues.

    For lessons, which show a study from its first run every time they are executed.
    """
    if int(os.environ.get("SLURM_RESTART_COUNT", 0)) == 0:
        shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    return out


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def read_folder(out: Path) -> dict[str, Any]:
    """Return the content of `study.json`; empty if there is none.

    Raises `BadInput` when it can't be read.
    """
    path = out / FILE
    return read_object(path) if path.exists() else {}


def finished(out: Path, names: Sequence[str]) -> dict[str, Run]:
    """Return those of the named runs that are done."""
    return {name: Run.load(out / name) for name in names if _is_done(out / name)}


def carry_out(out: Path, plans: Sequence[Planned]) -> Iterator[Outcome]:
    """Do the runs that aren't done yet, in order, and yield the outcome of every run.

    Raises `Stopped` when a signal stopped a run; the same call resumes it.
    """
    for planned in plans:
        yield _outcome(out / planned.name, planned)


def _outcome(folder: Path, planned: Planned) -> Outcome:
    begun = (folder / "config.json").exists()
    if _is_done(folder):
        return Outcome(planned, Run.load(folder))
    # the tables need no weights, and a family's checkpoints would fill a disk
    often = planned.config.checkpoint_every or 0
    own: dict[str, Any] = {"out": str(folder), "resume": begun, "checkpoint_every": often}
    try:
        run = start.train(dataclasses.replace(planned.config, **own))
    except Stopped:
        raise
    except Unavailable as error:
        return Outcome(planned, None, "unavailable", str(error))
    except BadInput as error:
        return Outcome(planned, None, "refused", str(error))
    except DtlibError as error:
        return Outcome(planned, None, "failed", str(error).partition("\n")[0])
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return Outcome(planned, run)


def _is_done(folder: Path) -> bool:
    return (folder / "config.json").exists() and (folder / "summary.json").exists()
