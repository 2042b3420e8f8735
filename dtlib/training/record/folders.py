"""The folder of a run: create it, check that it is writable, keep other runs out of it."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from dtlib.config.files import writable_folder
from dtlib.errors import BadInput


def new_folder(root: Path, name: str) -> Path:
    """Create and return the first unused folder of `root/name-001`, `root/name-002`, …"""
    root.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = root / f"{name}-{number:03d}"
        try:
            folder.mkdir()  # fails if another run has just taken the number, so no check before it
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")


def make_folder(folder: Path, *, resume: bool) -> None:
    """Create the run's folder, and remove the `requeue` mark of an earlier start.

    Raises `BadInput` when it can't be created or written to, or holds a run that isn't to be
    resumed.
    """
    if not resume and (folder / "config.json").exists():
        raise BadInput(
            f"the folder {folder} already holds a run: add --resume to resume it, "
            "or choose another --out."
        )
    (writable_folder(folder) / "requeue").unlink(missing_ok=True)


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock a folder against other runs; the system releases the lock if this process is killed.

    Raises `BadInput` when another run is writing to the folder.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks can't keep others out
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
