"""The folder of a run: a new one, one that may be written to, one that no other run writes to."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dtlib.errors import BadInput


def new_folder(root: Path, name: str) -> Path:
    """Make and return the first free one of `root/name-001`, `root/name-002`, …"""
    root.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = root / f"{name}-{number:03d}"
        try:
            folder.mkdir()  # fails if another run took the number since: no look before the leap
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")


def make_folder(folder: Path, *, resume: bool) -> None:
    """Make the run's folder, and take back the wish of an earlier start to be started again.

    Raises `BadInput` when it cannot be made or written to, or it holds a run that this one should
    not resume.
    """
    if not resume and (folder / "config.json").exists():
        raise BadInput(
            f"the folder {folder} already holds a run: add --resume to resume it, "
            "or choose another --out."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        (folder / "requeue").unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(
            f"the folder {folder} cannot hold a run ({error.strerror}): choose another --out."
        ) from error


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder meanwhile; the system lets go if this process is killed.

    Raises `BadInput` when another run is at work there.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: nobody can be kept out
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(
                    f"another run is writing to the folder {folder}: wait until it ends, or "
                    "choose another --out."
                ) from None
        yield
    finally:
        os.close(handle)
