"""Where data is: in a named folder, or under a name that is looked up in a few known places."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from dtlib.config.files import writable_folder, write_atomically
from dtlib.data.folders import cache_folder, roots
from dtlib.errors import BadInput

T = TypeVar("T")

__all__ = ["cache_folder", "cached", "find", "is_folder_name", "made_once", "roots"]


def is_folder_name(text: str) -> bool:
    """Return whether `text` means a folder and not the name of a data set."""
    return os.sep in text or text.startswith(("~", ".")) or Path(text).is_dir()


def find(name: str, subfolders: Sequence[str], holds: Callable[[Path], bool], remedy: str) -> Path:
    """Return the first folder that `holds` the files of the data set `name`.

    The subfolders are tried below each root, in order; "" is the root itself. Raises `BadInput` if
    no place has the files; the message says where it looked, and ends with the `remedy`, in which
    `{root}` stands for the first root.
    """
    for root in roots():
        for sub in subfolders:
            if (root / sub).is_dir() and holds(root / sub):
                return root / sub
    places = ", ".join(str(root) for root in roots())
    raise BadInput(f"{name} was not found in {places}: {remedy.format(root=roots()[0])}.")


def cached(path: Path, load: Callable[[bytes], T], make: Callable[[], bytes]) -> T:
    """Return what `load` makes of the file `path`, writing it first if it is missing or damaged.

    If several processes want it at once, such as the ranks of a run, one makes it and the others
    wait. A cache is a convenience: if nothing can be written, the run is slower but does not fail.
    """
    with _locked(path):
        with contextlib.suppress(Exception):  # each reader reports damage in its own way
            return load(path.read_bytes())
        content = make()
        with contextlib.suppress(OSError):
            write_atomically(path, content)
        return load(content)


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, which `make` fills first if it is not there.

    One process fills it under another name while others wait, so a folder that is there is whole.
    Raises `BadInput` if the cache cannot be written to.
    """
    writable_folder(folder.parent, "DTLIB_CACHE")
    with _locked(folder):
        if not folder.is_dir():
            unfinished = f".tmp-{folder.name}-"
            for left in folder.parent.glob(f"{unfinished}*"):  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=unfinished) as made:
                make(inside := Path(made) / folder.name)
                inside.rename(folder)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let in one process at a time; the system frees the lock however its holder ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_suffix(".lock").open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # a folder that is read-only, or a file system without locks
        yield
        return
    with file:
        yield
