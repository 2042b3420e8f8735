"""Build notebooks from each lesson's py:percent source, and run them."""

from __future__ import annotations

from dtlib.lessons.commands import main

__all__ = ["main"]
