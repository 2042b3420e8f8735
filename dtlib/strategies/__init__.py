"""How a task is spread over ranks: one file a strategy, found by the names in its `STRATEGIES`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from dtlib.errors import refuse_unknown

if TYPE_CHECKING:
    from dtlib.strategies.base import Strategy


def available() -> dict[str, type[Strategy]]:
    """Return every strategy by its names; a new file in this folder needs no other change."""
    names: dict[str, type[Strategy]] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        names.update(getattr(module, "STRATEGIES", {}))
    return names


def find(name: str) -> type[Strategy]:
    """Return the strategy of that name.

    Raises `BadInput` when there is none; the sentence lists those that exist.
    """
    names = available()
    refuse_unknown("strategy", name, sorted(names))
    return names[name]
