"""Second names of packages: `from lesson.pictures import draw_ring` in the room that is open.

An alias gives the module itself, not a second copy of it, so a class that one side defines is
the class that the other side checks for. The launcher sends the table to every rank.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_table: dict[str, str] = {}


def alias(names: Mapping[str, str]) -> None:
    """Make each key an alias of the package that is its value, from now on.

    Parameters
    ----------
    names
        Alias to the package's full name, `{"lesson": "07_ranks_and_collectives"}`.
    """
    for short, package in names.items():
        if _table.get(short) != package:
            _forget(short)
            _table[short] = package
    if names and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def aliases() -> dict[str, str]:
    """The aliases that are in force here."""
    return dict(_table)


def _forget(short: str) -> None:
    """Drop what was imported under an alias that is about to mean another package."""
    for name in [n for n in sys.modules if n == short or n.startswith(f"{short}.")]:
        del sys.modules[name]


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        short = name.split(".")[0]
        return ModuleSpec(name, self, is_package=name == short) if short in _table else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        short, *rest = spec.name.split(".")
        module = importlib.import_module(".".join([_table[short], *rest]))
        # The import system is about to write the alias into the module's spec.
        self._kept = (module, module.__spec__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._kept[1]
