"""Colour for the words that lead a line, where a person sees it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

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
