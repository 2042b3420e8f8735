"""A study: a family of runs in one folder, each carried out once, however often it is started.

`study.json` says of which settings the study is, `STRATEGY-N/` holds the run of N ranks.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib import loop
from dtlib.config import RunConfig
from dtlib.errors import BadInput, DtlibError, Stopped, Unavailable
from dtlib.files import write_atomically
from dtlib.record import Run, to_json


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
        "done", "unavailable" (this machine lacks something), "refused" (the settings do not go with
        the strategy) or "failed".
    because
        The sentence that says why it is not done, with the remedy.
    """

    planned: Planned
    run: Run | None = None
    status: str = "done"
    because: str = ""


def open_folder(out: Path, kind: str, settings: Mapping[str, Any]) -> None:
    """Make the folder of a study, or find it again.

    Raises
    ------
    BadInput
        When it holds a study of other settings, whose runs would be mixed with these.
    """
    path = out / "study.json"
    wanted = {"study": kind, **{key: value for key, value in settings.items() if value is not None}}
    wanted = json.loads(to_json(wanted))
    if path.exists():
        found = json.loads(path.read_bytes())
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                raise BadInput(
                    f"the study in {out} has {key} {found.get(key)} and this one has"
                    f" {wanted.get(key)}; use the same settings, or choose another --out."
                )
        return
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, to_json(wanted, indent=2) + "\n")


def carry_out(out: Path, plans: Sequence[Planned]) -> Iterator[Outcome]:
    """Carry out the runs that are not done yet, in their order; yield what came of each.

    Raises
    ------
    Stopped
        When a signal stopped a run; the same call goes on with it.
    """
    for planned in plans:
        yield _outcome(out / planned.name, planned)


def _outcome(folder: Path, planned: Planned) -> Outcome:
    begun = (folder / "config.json").exists()
    if begun and (folder / "summary.json").exists():
        return Outcome(planned, Run.load(folder))
    config = dataclasses.replace(planned.config, out=str(folder), resume=begun)
    try:
        run = loop.train(config)
    except Stopped:
        raise
    except Unavailable as error:
        return Outcome(planned, None, "unavailable", str(error))
    except BadInput as error:
        return Outcome(planned, None, "refused", str(error))
    except DtlibError as error:
        return Outcome(planned, None, "failed", str(error).partition("\n")[0])
    # the tables need no weights, and those of a family would fill a disk
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return Outcome(planned, run)
