"""Move a slider, see a pure-Python function answer: `what_if`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from dtlib.learn import rooms, session
from dtlib.learn.show import show
from dtlib.learn.source import Lesson


def what_if(name: str) -> None:
    """Show the what-if `name` of the sidecar: sliders, curves, a sentence and a table.

    The sidecar names a function `module:function` (`lesson.what_if:curve` is in the lesson's own
    room) of plain numbers that returns a dict with `curves` (label to a list of `[x, y]`), `says`
    (a sentence) and optionally `x`, `y` (axis labels), `log_x` and `point` (`[x, y]`). Its module
    must be pure Python that imports nothing but `math` and names from such modules of `dtlib.sim`,
    since a page without a kernel runs the same source in MicroPython. With `kernel: true` the
    function may do anything, start ranks for instance; a page then shows its first answer and says
    that the sliders need JupyterLab.

    Raises
    ------
    BadInput
        When the sidecar has no such entry.
    """
    from dtlib.learn.widgets import WhatIfForm

    lesson = session.current()
    entry = lesson.entry("what_if", name)
    module, function = formula(lesson, entry)
    spec = {"title": entry["title"], "inputs": entry["inputs"], "function": function}
    source = "" if entry.get("kernel") else page_source(module)
    show(WhatIfForm(spec, getattr(module, function), source))


def formula(lesson: Lesson, entry: Mapping[str, Any]) -> tuple[ModuleType, str]:
    """The module of a what-if, and the name of its function there."""
    module_name, function = entry["function"].split(":")
    place, _, inside = module_name.partition(".")
    if place == "lesson":
        return rooms.module(lesson, inside), function
    return importlib.import_module(module_name), function


def page_source(module: ModuleType) -> str:
    """A what-if's module as one text, for a page without packages.

    Each module that it imports, directly or not, stands once, before the first that needs it.
    """
    told: set[str] = set()

    def text_of(imported: re.Match[str]) -> str:
        if imported[1] in told:
            return ""
        told.add(imported[1])
        return told_by(importlib.import_module(imported[1]))

    def told_by(part: ModuleType) -> str:
        pattern = r"^from (dtlib\.sim\.\w+) import (?:[\w, ]+$|\([\w,\s]+\))"
        return re.sub(pattern, text_of, inspect.getsource(part), flags=re.M)

    return told_by(module)
