"""Checkpoints on disk: their names and markers, what can be wrong with them, which ones to keep."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from dtlib.errors import counted, in_words

MARKER = "complete.json"
TEMPORARY = ".tmp-"
# A step that is saved a second time (by a resumed run) gets a new name: replacing a folder that
# isn't empty takes two renames, and a crash between them would lose both.
_NAME = re.compile(r"step-(\d{8,})(?:-again(\d+))?")


class _Hashing:
    """A file that hashes what is written to it, so that nothing has to be read again."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash, self.bytes = file, hashlib.sha256(), 0
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.bytes += memoryview(data).nbytes
        try:
            return self.file.write(data)
        except OSError as error:  # torch would only report an unexpected position
            self.error = error
            raise

    def flush(self) -> None:
        self.file.flush()


def write_tensors(path: Path, content: Any) -> dict[str, Any]:
    """Save `content` at `path`, flush it to the disk, and return its size in bytes and its hash."""
    with path.open("wb") as file:
        hashing = _Hashing(file)
        try:
            torch.save(content, hashing)  # type: ignore[arg-type]  # it only needs write and flush
        except RuntimeError:
            if hashing.error is None:
                raise
            raise hashing.error from None
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": hashing.bytes, "sha256": hashing.hash.hexdigest()}


def read_tensors(path: Path) -> Any:
    """Load tensors and plain values to the CPU, so that the ranks don't all load to GPU 0.

    `weights_only` prevents a file from running code.
    """
    return torch.load(path, map_location="cpu", weights_only=True)


@dataclass(frozen=True)
class Marker:
    """Content of `complete.json`: sizes and hashes by file, step, number of ranks and metric.

    Raises
    ------
    ValueError
        The content has another form, so this version did not write it.
    """

    step: int
    world_size: int
    metric: float | None
    files: dict[str, dict[str, Any]]

    def __post_init__(self) -> None:
        numbers = isinstance(self.step, int) and isinstance(self.world_size, int)
        files = isinstance(self.files, dict) and "shared.pt" in self.files
        if not numbers or not files or not isinstance(self.metric, float | int | None):
            raise ValueError(f"{MARKER} is not a checkpoint's marker")


@dataclass(frozen=True, order=True)
class Folder:
    """A checkpoint's folder; later ones compare greater."""

    step: int
    again: int
    path: Path

    def marker(self) -> Marker:
        """Content of the marker file."""
        return Marker(**json.loads((self.path / MARKER).read_text(encoding="utf-8")))

    def what_is_wrong(self, *, read: bool) -> str | None:
        """Say what makes this checkpoint unusable; None if it is complete.

        Parameters
        ----------
        read
            Also read every file and compare its hash; otherwise, only compare sizes.
        """
        if not (self.path / MARKER).exists():
            return f"it has no {MARKER}, so the save was interrupted"
        try:
            files = self.marker().files
            wrong = (_compare(self.path / name, told, read) for name, told in files.items())
            return next(filter(None, wrong), None)
        except (ValueError, TypeError, KeyError, OSError) as error:
            return f"it cannot be read ({in_words(error)})"

    def metric(self) -> float:
        """The metric it was saved with; infinity, so never the best, when there is none."""
        value = self.marker().metric
        return math.inf if value is None else float(value)


def list_folders(root: Path) -> list[Folder]:
    """Return all checkpoints in `root`, complete or not, the last one first."""
    found = []
    for path in root.iterdir() if root.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and path.is_dir():
            found.append(Folder(int(match[1]), int(match[2] or 0), path))
    return sorted(found, reverse=True)


def free_name(root: Path, step: int) -> str:
    """Return an unused name for a new checkpoint of `step`."""
    taken = [folder.again for folder in list_folders(root) if folder.step == step]
    return f"step-{step:08d}" + (f"-again{max(taken) + 1}" if taken else "")


def prune(root: Path) -> None:
    """Remove all but the last two complete checkpoints and the best one.

    Damaged ones are removed too, but nothing is removed while there is no complete one.
    """
    folders = list_folders(root)
    complete = [folder for folder in folders if folder.what_is_wrong(read=False) is None]
    if not complete:
        return
    keep = set(complete[:2])
    best = min(complete, key=Folder.metric)  # the last one of equal ones
    if best.metric() < math.inf:
        keep.add(best)
    for folder in folders:
        if folder not in keep:
            remove(folder.path)


def remove(path: Path) -> None:
    """Rename a folder and then remove it, so that a kill halfway leaves no damaged checkpoint."""
    hidden = path.with_name(f"{TEMPORARY}removed-{path.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def remove_temporary(root: Path) -> None:
    """Remove half-written folders of a killed run."""
    for path in root.glob(f"{TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)


def _compare(path: Path, told: dict[str, Any], read: bool) -> str | None:
    if not path.is_file():
        return f"{path.name} is missing"
    size = path.stat().st_size
    if size != told["bytes"]:
        return f"{path.name} has {counted(size, 'byte')} instead of {told['bytes']}"
    if read and _hash(path) != told["sha256"]:
        return f"the content of {path.name} is not what was written (its hash differs)"
    return None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
