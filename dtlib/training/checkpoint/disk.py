"""Checkpoints in a folder of a file system: written under another name, published by one rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtlib.config.files import fsync_folder, writable_folder, write_atomically
from dtlib.errors import counted
from dtlib.training.checkpoint.folders import MARKER, Storage, free_name, save_hashed

TEMPORARY = ".tmp-"


def write_tensors(path: Path, content: Any) -> dict[str, Any]:
    """Save `content` at `path`, flush it to the disk, and return its size in bytes and its hash."""
    with path.open("wb") as file:
        told = save_hashed(content, file)
        file.flush()
        os.fsync(file.fileno())
    return told


class Disk(Storage):
    """The checkpoints in a folder that all ranks share."""

    def __init__(self, where: Path) -> None:
        self.where = where

    def check(self) -> None:
        """Make the folder and a file in it."""
        writable_folder(self.where, "--checkpoints")

    def begin(self, step: int) -> str:
        """Make an empty folder under a temporary name."""
        self.where.mkdir(parents=True, exist_ok=True)
        self.clean()
        draft = f"{TEMPORARY}step-{step:08d}"
        (self.where / draft).mkdir()
        return draft

    def write(self, draft: str, file: str, content: Any) -> dict[str, Any]:
        """Write a file and flush it to the disk."""
        return write_tensors(self.where / draft / file, content)

    def publish(self, draft: str, marker: str) -> str:
        """Rename the draft after its marker has been written."""
        temporary = self.where / draft
        write_atomically(temporary / MARKER, marker)
        name = free_name(int(draft.rpartition("-")[2]), self.names())
        temporary.rename(self.where / name)
        fsync_folder(self.where)
        return name

    def leftovers(self) -> list[str]:
        """Name the half-written folders of a killed run."""
        found = sorted(self.where.glob(f"{TEMPORARY}*"))
        return [f"{one.name} ({counted(sum(_sizes(one).values()), 'byte')})" for one in found]

    def clean(self) -> None:
        """Remove half-written folders of a killed run."""
        for path in self.where.glob(f"{TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)

    def names(self) -> list[str]:
        """Return the names of the folders here."""
        found = self.where.iterdir() if self.where.is_dir() else ()
        return [path.name for path in found if path.is_dir()]

    def sizes(self, name: str) -> Mapping[str, int]:
        """Return the number of bytes of each file of a folder."""
        return _sizes(self.where / name)

    def reader(self, name: str, file: str) -> Any:
        """Open a file for reading."""
        return self.path(name, file).open("rb")

    def remove(self, name: str) -> None:
        """Rename a folder and then remove it."""
        hidden = self.where / f"{TEMPORARY}removed-{name}"
        shutil.rmtree(hidden, ignore_errors=True)
        (self.where / name).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def path(self, name: str, file: str = "") -> Path:
        """Return the path of a folder, or of one of its files."""
        return self.where / name / file


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
