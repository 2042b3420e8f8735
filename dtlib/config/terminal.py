"""What a command prints: colour for people at a terminal, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

COLOURS = {"ok": 32, "note": 33, "missing": 31}  # green, yellow, red, in ANSI's numbers


def painted(word: str, file: TextIO | None = None, env: Mapping[str, str] = os.environ) -> str:
    """Return a line's first word in the colour of its meaning, if the output is a terminal.

    Notebooks run commands in a terminal too, but store the text, so there it stays plain.
    """
    seen = (file or sys.stdout).isatty() and env.get("TERM") != "dumb"
    code = COLOURS.get(word.strip())
    if code is None or not seen or env.get("NO_COLOR") or "JPY_PARENT_PID" in env:
        return word
    return f"\x1b[{code}m{word}\x1b[0m"


def to_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, in one line unless `indent` is given; a dataclass is an object."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    """Convert a value to types that JSON has; nan and infinity become their names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return _plain(value.item()) if hasattr(value, "item") else str(value)
