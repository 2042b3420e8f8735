"""The lessons machine: one py:percent source a lesson becomes notebooks, and notebooks are run."""

from __future__ import annotations

from collections.abc import Sequence

from dtlib.lessons.build import build, derive
from dtlib.lessons.validate import validate

__all__ = ["build", "derive", "main", "validate"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `dtlib lessons …` and return its exit code.

    Raises
    ------
    BadInput
        For an unknown lesson or parameter, or a source that breaks a rule.
    """
    from dtlib.lessons.commands import main as commands

    return commands(argv)
