"""How fast a folder's storage is: one large file, and the same bytes as many small ones.

What was just written lies in the machine's memory, and would be read from there. So each file is
forced to the storage (fsync), and the system is asked to forget it before it is read; where it
cannot be asked (macOS), reading is not measured.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput, in_words

CHUNK = 2**20  # bytes of one write or read of the large file
SPARE = 2  # the folder needs room for that many times the bytes
FORGETS = hasattr(os, "posix_fadvise")


def measure(folder: Path, size: int, files: int) -> list[dict[str, Any]]:
    """Write and read `size` bytes in one file, then in `files` of equal size; then remove them.

    Returns
    -------
    list
        For each measurement its name, `files`, `bytes`, `seconds`, `bytes_per_s` and `files_per_s`.

    Raises
    ------
    BadInput
        If the folder cannot be written, or has too little room, or a number is not positive.
    """
    if files < 1 or size < files:
        raise BadInput(
            f"{size} bytes in {files} files cannot be measured; use a byte a file or more."
        )
    free = shutil.disk_usage(_there(folder)).free
    if free < SPARE * size:
        raise BadInput(
            f"{folder} has {free / 1e9:.1f} GB free, and measuring {size / 1e9:.1f} GB takes"
            f" {SPARE * size / 1e9:.1f}; use a smaller --size."
        )
    found = []
    with _scratch(folder) as place:
        for name, many in (("one file", 1), (f"{files:,} files", files)):
            paths = [place / f"{many}-{number:07d}" for number in range(many)]
            found.append(_row(f"write {name}", many, size, _write(paths, size // many)))
            if FORGETS:
                _forget(paths)
                found.append(_row(f"read {name}", many, size, _read(paths)))
    return found


def _there(folder: Path) -> Path:
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; name one on the storage to measure.")
    return folder


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    try:
        place = Path(tempfile.mkdtemp(prefix="dtlib-bench-", dir=folder))
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({in_words(error)}).") from None
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _write(paths: list[Path], size: int) -> float:
    data = os.urandom(min(size, CHUNK))  # some storage compresses what repeats, but not a chunk
    begin = time.perf_counter()
    for path in paths:
        with path.open("wb", buffering=0) as file:
            for start in range(0, size, CHUNK):
                file.write(data[: size - start])
            os.fsync(file.fileno())
    return time.perf_counter() - begin


def _forget(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(paths: list[Path]) -> float:
    begin = time.perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(CHUNK):
                pass
    return time.perf_counter() - begin


def _row(what: str, files: int, size: int, seconds: float) -> dict[str, Any]:
    whole = size // files * files
    return {
        "what": what,
        "files": files,
        "bytes": whole,
        "seconds": seconds,
        "bytes_per_s": whole / seconds,
        "files_per_s": files / seconds,
    }
