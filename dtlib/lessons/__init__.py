"""The lessons machine: one py:percent source a lesson becomes notebooks, and notebooks are run."""

from __future__ import annotations

from dtlib.lessons.commands import main

__all__ = ["main"]
