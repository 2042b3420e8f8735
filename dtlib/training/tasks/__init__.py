"""What is learnt: a task is a model, its data, its loss and its evaluation, one file a task."""

from __future__ import annotations

import importlib

from dtlib.training.tasks.base import Task


def find(name: str) -> type[Task]:
    """Return the task of that name, one of `config.CHOICES["task"]`; its file is loaded now."""
    return importlib.import_module(f"{__name__}.{name}").TASK
