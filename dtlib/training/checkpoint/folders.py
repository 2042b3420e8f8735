"""The checkpoints of one run: names and markers, what can be wrong with them, which ones to keep.

`Storage` is what a disk and a bucket have in common; `disk.py` and `bucket.py` are the two.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import torch

from dtlib.errors import counted, in_words

MARKER = "complete.json"
CHUNK = 1 << 20  # bytes written at once: a file that buffers what it sends copies no whole tensor
# A step that is saved a second time (by a resumed run) gets a new name: replacing a folder that
# isn't empty takes two renames, and a crash between them would lose both.
_NAME = re.compile(r"step-(\d{8,})(?:-again(\d+))?")


class _Hashing:
    """A file that hashes what is written to it, so that nothing has to be read again."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash, self.bytes = file, hashlib.sha256(), 0
        self.error: Exception | None = None

    def write(self, data: Any) -> int:
        whole = memoryview(data).cast("B")
        self.hash.update(whole)
        self.bytes += whole.nbytes
        try:
            for start in range(0, whole.nbytes, CHUNK):
                self.file.write(whole[start : start + CHUNK])
        except Exception as error:  # torch would only report an unexpected position
            self.error = error
            raise
        return whole.nbytes

    def flush(self) -> None:
        self.file.flush()


def save_hashed(content: Any, file: IO[bytes]) -> dict[str, Any]:
    """Save `content` into an open file, and return its size in bytes and its hash."""
    hashing = _Hashing(file)
    try:
        torch.save(content, hashing)  # type: ignore[arg-type]  # it only needs write and flush
    except RuntimeError:
        if hashing.error is None:
            raise
        raise hashing.error from None
    return {"bytes": hashing.bytes, "sha256": hashing.hash.hexdigest()}


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
    """A checkpoint in a storage; later ones compare greater."""

    step: int
    again: int
    name: str
    storage: Storage = field(compare=False)

    def path(self, file: str = "") -> Any:
        """Return where the checkpoint, or one of its files, lies: a Path, or an address."""
        return self.storage.path(self.name, file)

    @functools.cached_property
    def marker(self) -> Marker:
        """Content of the marker file, which never changes."""
        with self.storage.reader(self.name, MARKER) as file:
            return Marker(**json.loads(file.read()))

    def tensors(self, file: str) -> Any:
        """Load a file's tensors and plain values to the CPU, so that not all ranks use GPU 0.

        `weights_only` prevents a file from running code.
        """
        with self.storage.reader(self.name, file) as opened:
            return torch.load(opened, map_location="cpu", weights_only=True)

    def what_is_wrong(self, *, read: bool) -> str | None:
        """Say what makes this checkpoint unusable; None if it is complete.

        Parameters
        ----------
        read
            Also read every file and compare its hash; otherwise, only compare sizes.
        """
        try:
            sizes = self.storage.sizes(self.name)
            if MARKER not in sizes:
                return f"it has no {MARKER}, so the save was interrupted"
            files = self.marker.files
            wrong = (self._compare(name, files[name], sizes, read) for name in files)
            return next(filter(None, wrong), None)
        except (ValueError, TypeError, KeyError, OSError) as error:
            return f"it cannot be read ({in_words(error)})"

    def _compare(
        self, name: str, told: dict[str, Any], sizes: Mapping[str, int], read: bool
    ) -> str | None:
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] != told["bytes"]:
            return f"{name} has {counted(sizes[name], 'byte')} instead of {told['bytes']}"
        if read and self._hash(name) != told["sha256"]:
            return f"the content of {name} is not what was written (its hash differs)"
        return None

    def _hash(self, name: str) -> str:
        hashing = hashlib.sha256()
        with self.storage.reader(self.name, name) as file:
            while block := file.read(1 << 22):
                hashing.update(block)
        return hashing.hexdigest()

    def metric(self) -> float:
        """The metric it was saved with; infinity, so never the best, when there is none."""
        value = self.marker.metric
        return math.inf if value is None else float(value)


class Storage(ABC):
    """A place that holds the checkpoints of one run, and what it does to its files.

    A checkpoint counts once `publish` has returned; a kill at any moment before leaves something
    that `folders` does not show, or shows as incomplete, and that the next `begin` removes.
    """

    where: Any  # a Path, or an address
    setting = "--out"  # what chooses another place

    @abstractmethod
    def check(self) -> None:
        """Raise a `DtlibError` when nothing can be written here."""

    @abstractmethod
    def begin(self, step: int) -> str:
        """Remove what does not count, and return the name under which files are written."""

    @abstractmethod
    def write(self, draft: str, file: str, content: Any) -> dict[str, Any]:
        """Save `content` durably as a file of a draft, and return its size and its hash."""

    @abstractmethod
    def publish(self, draft: str, marker: str) -> str:
        """Write the marker last, make the draft a checkpoint, and return the checkpoint's name."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """Name whatever interrupted saves have left, with its size."""

    @abstractmethod
    def clean(self) -> None:
        """Remove what interrupted saves have left."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all folders here that may be checkpoints."""

    @abstractmethod
    def sizes(self, name: str) -> Mapping[str, int]:
        """Return the number of bytes of each file of a folder."""

    @abstractmethod
    def reader(self, name: str, file: str) -> Any:
        """Open a file for reading, as a context manager."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a checkpoint so that a kill halfway leaves none that looks complete."""

    @abstractmethod
    def path(self, name: str, file: str = "") -> Any:
        """Return where a folder, or one of its files, lies."""

    def folders(self) -> list[Folder]:
        """Return all checkpoints, complete or not, the last one first."""
        matches = [(name, _NAME.fullmatch(name)) for name in self.names()]
        found = [Folder(int(m[1]), int(m[2] or 0), name, self) for name, m in matches if m]
        return sorted(found, reverse=True)

    def prune(self) -> None:
        """Remove all but the last two complete checkpoints and the best one.

        Damaged ones are removed too, but nothing is removed while there is no complete one.
        """
        folders = self.folders()
        complete = [folder for folder in folders if folder.what_is_wrong(read=False) is None]
        if not complete:
            return
        keep = set(complete[:2])
        best = min(complete, key=Folder.metric)  # the last one of equal ones
        if best.metric() < math.inf:
            keep.add(best)
        for folder in folders:
            if folder not in keep:
                self.remove(folder.name)


def free_name(step: int, names: Iterable[str]) -> str:
    """Return a name for a new checkpoint of `step` that is not among `names`."""
    matches = filter(None, map(_NAME.fullmatch, names))
    taken = [int(match[2] or 0) for match in matches if int(match[1]) == step]
    return f"step-{step:08d}" + (f"-again{max(taken) + 1}" if taken else "")
