"""A study: a family of runs in one folder, each carried out once, however often it is started.

`study.json` says of which settings the study is and which runs it has; each run has a folder of
its name.
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
    """One run of a study: its name, which is that of its folder, and its settings."""

    name: str
    config: RunConfig


@dataclass(frozen=True)
class Outcome:
    """What came of a planned run.

    Attributes
    ----------
    run
        Its records; None when there are none.
    status
        "done", "unavailable" (something is missing here), "refused" (the settings do not go with
        the strategy) or "failed".
    because
        The sentence that says why it is not done, with the remedy.
    """

    planned: Planned
    run: Run | None = None
    status: str = "done"
    because: str = ""


def open_folder(
    out: Path, kind: str, settings: Mapping[str, Any], names: Sequence[str] = ()
) -> None:
    """Make the folder of a study, or find it again; several processes may do so at once.

    Parameters
    ----------
    out
        The folder.
    kind
        The study's.
    settings
        Those that may not differ when it is continued.
    names
        Of its runs; those that it had before stay.

    Raises
    ------
    BadInput
        When it holds a study of other settings, whose runs would be mixed with these.
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
    """Make a study's folder empty, and return it; a requeued job continues with what it has.

    For a lesson, which shows a study from its first run on whenever somebody executes it.
    """
    if int(os.environ.get("SLURM_RESTART_COUNT", 0)) == 0:
        shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    return out


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def read_folder(out: Path) -> dict[str, Any]:
    """Return what `study.json` says; nothing when there is none.

    Raises `BadInput` when it cannot be read.
    """
    path = out / FILE
    return read_object(path) if path.exists() else {}


def finished(out: Path, names: Sequence[str]) -> dict[str, Run]:
    """Return the runs of these names that are done."""
    return {name: Run.load(out / name) for name in names if _is_done(out / name)}


def carry_out(out: Path, plans: Sequence[Planned]) -> Iterator[Outcome]:
    """Carry out the runs that are not done yet, in their order; yield what came of each.

    Raises `Stopped` when a signal stopped a run; the same call resumes it.
    """
    for planned in plans:
        yield _outcome(out / planned.name, planned)


def _outcome(folder: Path, planned: Planned) -> Outcome:
    begun = (folder / "config.json").exists()
    if _is_done(folder):
        return Outcome(planned, Run.load(folder))
    # the tables need no weights, and those of a family would fill a disk
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
