"""Where data lies: a folder that was named, or a name that is looked up in a few known places."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from dtlib.errors import BadInput


def cache_folder() -> Path:
    """Return the folder for what can be made again: `DTLIB_CACHE`, else `~/.cache/dtlib`."""
    chosen = os.environ.get("DTLIB_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "dtlib"


def roots() -> list[Path]:
    """Return the folders in which a name is looked up, in order: `DTLIB_DATA`, cache, `./data`."""
    chosen = os.environ.get("DTLIB_DATA")
    first = [Path(chosen).expanduser()] if chosen else []
    return [*first, cache_folder(), Path("data").resolve()]


def is_folder_name(text: str) -> bool:
    """Tell whether `text` means a folder and not the name of a data set."""
    return os.sep in text or text.startswith(("~", ".")) or Path(text).is_dir()


def find(name: str, subfolders: Sequence[str], holds: Callable[[Path], bool], remedy: str) -> Path:
    """Return the first folder that holds the data set `name`.

    Parameters
    ----------
    name : str
        What the data set is called, for the message.
    subfolders : sequence of str
        Tried below each root, in order; "" is the root itself.
    holds : callable
        Tells whether a folder has the files.
    remedy : str
        How to bring them, as the end of the sentence; `{root}` stands for the first root.

    Raises
    ------
    BadInput
        If no place has them; the sentence says where it looked.
    """
    for root in roots():
        for sub in subfolders:
            if (root / sub).is_dir() and holds(root / sub):
                return root / sub
    places = ", ".join(str(root) for root in roots())
    raise BadInput(f"{name} was not found in {places}: {remedy.format(root=roots()[0])}.")


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under another name beside `path`, then rename it: never seen half-written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
