"""The cheat sheet's page: TeX made from the formulas of cheat_sheet.yaml, each compared with dtlib.

A formula is written once, as Python; its TeX comes from that text, and so do the numbers that are
compared with the library's. So the page cannot say anything that the library does not compute.
"""

from __future__ import annotations

import ast
import importlib
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from dtlib.errors import BadInput

BOOK = Path(__file__).resolve().parent
NAMES: dict[str, Any] = {"ceil": math.ceil, "log2": math.log2, "max": max, "min": min, "sum": sum}
LETTERS = {"Ψ": r"\Psi", "α": r"\alpha", "β": r"\beta"}
_LEVELS = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.Pow: 3}


def page(stems: Mapping[str, str]) -> str:
    """The tables of the cheat sheet as Markdown.

    Parameters
    ----------
    stems
        Number of a lesson → its room, for the links.

    Raises
    ------
    BadInput
        When a formula gives another number than the function that it stands for.
    """
    text = []
    for part in yaml.safe_load((BOOK / "cheat_sheet.yaml").read_text("utf-8")):
        rows = ["| what | formula | computed by | lesson |", "| --- | --- | --- | --- |"]
        for one in part["formulas"]:
            compare(one)
            number = one["lesson"]
            link = f"[{number}](/lessons/{stems[number]}.ipynb)" if number in stems else number
            name = one["by"].replace(":", ".")
            rows.append(
                f"| {one['what']} [{one['unit']}] | $\\displaystyle {{{tex(one['formula'])}}}$ "
                f"| `{name}` | {link} |"
            )
        table = "\n".join(rows)
        text.append(f"## {part['part']}\n\n:::{{div}} cheat-sheet\n{table}\n:::\n")
    return "\n".join(text)


def compare(one: Mapping[str, Any]) -> None:
    """Compute a formula and what the library says in all of its cases; refuse a difference."""
    function = _found(one["by"])
    for case in one["cases"]:
        mine = eval(one["formula"], {**NAMES, **case})
        theirs = eval(one["is"], {**NAMES, **case, "f": function})
        if not math.isclose(mine, theirs, rel_tol=1e-9):
            values = ", ".join(f"{name} = {value:g}" for name, value in case.items())
            raise BadInput(
                f"cheat_sheet.yaml: {one['formula']} is {mine:g} for {values}, and {one['by']} "
                f"says {theirs:g}; correct the formula of {one['what']!r}."
            )


def _found(name: str) -> Callable[..., Any]:
    """A function of dtlib, or of a lesson's room."""
    module, _, function = name.partition(":")
    rooms = str(BOOK.parent / "lessons_src")
    if rooms not in sys.path:
        sys.path.append(rooms)
    return getattr(importlib.import_module(module), function)


def tex(text: str) -> str:
    """TeX of a formula that is written as Python: + - * / **, ceil, log2, max and symbols."""
    return _tex(ast.parse(text, mode="eval").body)


def _tex(node: ast.expr, inside: int = 0) -> str:
    """TeX of a part; `inside` is how tightly what surrounds it binds."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return _symbol(node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        parts = [_tex(part) for part in node.args]
        if node.func.id == "ceil":
            return rf"\left\lceil {parts[0]} \right\rceil"
        if node.func.id == "log2":
            return rf"\log_2 {parts[0]}"
        listed = ", ".join(parts)
        return rf"\{node.func.id}\left({listed}\right)"
    if not isinstance(node, ast.BinOp) or type(node.op) not in _LEVELS:
        raise BadInput(f"cheat_sheet.yaml: {ast.unparse(node)} has no TeX; see cheat_sheet.py.")
    level = _LEVELS[type(node.op)]
    if isinstance(node.op, ast.Div):
        return rf"\frac{{{_tex(node.left)}}}{{{_tex(node.right)}}}"
    if isinstance(node.op, ast.Pow):
        return f"{_tex(node.left, level)}^{{{_tex(node.right)}}}"
    right = level + isinstance(node.op, ast.Sub)  # a - (b - c)
    parts = [_tex(node.left, level), _tex(node.right, right)]
    if isinstance(node.op, ast.Mult):
        numbers = parts[0][-1].isdigit() and parts[1][0].isdigit()
        made = (r" \cdot " if numbers else r"\,").join(parts)
    else:
        made = (" + " if isinstance(node.op, ast.Add) else " - ").join(parts)
    return rf"\left({made}\right)" if level < inside else made


def _symbol(name: str) -> str:
    """Ψ, N and t_load as TeX."""
    letter, _, below = name.partition("_")
    letter = LETTERS.get(letter, letter if len(letter) == 1 else rf"\mathrm{{{letter}}}")
    return rf"{letter}_{{\mathrm{{{below}}}}}" if below else letter
