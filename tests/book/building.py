"""Build the website as a user does."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")


class Built(NamedTuple):
    """What a build said, and when each lesson's page had been executed before it."""

    said: str
    before: dict[Path, int]


def lesson_times() -> dict[Path, int]:
    """When each lesson's page was executed last."""
    return {path: path.stat().st_mtime_ns for path in ROOT.glob("build/book/lessons/*.ipynb")}


def make_book() -> subprocess.CompletedProcess[str]:
    """`make book` in this checkout with this Python; a machine that cannot skips the test."""
    # what an outer make was told reaches an inner one through the environment
    clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "VENV")}
    done = subprocess.run(
        ["make", "book", f"VENV={sys.prefix}"],
        cwd=ROOT, env=clean, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    if "The website needs" in done.stderr or "npm could not bring" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[0])
    return done
