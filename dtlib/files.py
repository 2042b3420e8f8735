"""Write a file so that a reader sees the old one or the whole new one, never a part."""

from __future__ import annotations

import os
from pathlib import Path


def fsync_folder(folder: Path) -> None:
    """Make the names inside `folder` (new, renamed, removed) survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step.

    The temporary file lies in the same folder: a rename is atomic only within one file system.
    """
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
