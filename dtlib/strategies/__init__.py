"""How training is distributed over ranks: one file per strategy, with its names in `STRATEGIES`."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
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


def names() -> list[str]:
    """Return the sorted names of all strategies without importing any of them, nor torch."""
    found: list[str] = []
    for folder in __path__:
        for path in Path(folder).glob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                match node:
                    case ast.Assign([ast.Name("STRATEGIES")], ast.Dict(keys)):
                        found += [str(key.value) for key in keys if isinstance(key, ast.Constant)]
    return sorted(found)


def find(name: str) -> type[Strategy]:
    """Return the strategy of that name.

    Raises `BadInput` when there is none; the message lists those that exist.
    """
    names = available()
    refuse_unknown("strategy", name, sorted(names))
    return names[name]
