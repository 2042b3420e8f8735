"""The folders in which data may be."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for what can be made again: `DTLIB_CACHE`, or `~/.cache/dtlib`."""
    chosen = os.environ.get("DTLIB_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "dtlib"


def roots() -> list[Path]:
    """Return the folders in which a name is looked up, in order: `DTLIB_DATA`, cache, `./data`."""
    chosen = os.environ.get("DTLIB_DATA")
    first = [Path(chosen).expanduser()] if chosen else []
    return [*first, cache_folder(), Path("data").resolve()]
