"""Tasks: a model with its data, its loss and its evaluation, one file per task."""

from __future__ import annotations

import importlib

from dtlib.training.tasks.base import Task


def find(name: str) -> type[Task]:
    """Return the task of that name, one of `config.CHOICES["task"]`; this imports its file."""
    return importlib.import_module(f"{__name__}.{name}").TASK
