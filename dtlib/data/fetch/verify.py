"""Check that the files of a data set exist and are the right ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from dtlib.data.fetch.sources import File


def damaged(files: Sequence[File], folder: Path, *, hashes: bool = True) -> list[File]:
    """Return the files that are missing or damaged in `folder`, which need not exist.

    Without `hashes` it checks only sizes, which takes no time.
    """
    return [file for file in files if not _is_right(folder / file.name, file, hashes)]


def _is_right(path: Path, file: File, hashes: bool) -> bool:
    if not path.is_file() or not file.fits(path.stat().st_size):
        return False
    if not hashes:
        return True
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
