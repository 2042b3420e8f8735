"""Packages of npm that a test uses, where npm can bring them."""

import shutil
import subprocess
from pathlib import Path

import pytest


def install(folder: Path, package: str) -> Path:
    """Install a package into a folder and return its place; skip the test where that fails."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", package]
    if subprocess.run(words, cwd=folder, capture_output=True, timeout=100).returncode:
        pytest.skip(f"npm cannot bring {package}")
    return folder / "node_modules" / package.rpartition("@")[0]
