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
    """Return a word that leads a line in the colour of its meaning, where somebody sees colours.

    A notebook gives its commands a terminal of their own, and then keeps the text.
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
    """Turn a value into what JSON can say; nan and infinity, which it cannot, into their names."""
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
