"""Which files a lesson depends on: its room, and what that imports from dtlib, however late."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dtlib
from dtlib.learn.source import Lesson, parse, solved

ROOT = Path(dtlib.__file__).parents[1]
_DOTTED = re.compile(r"dtlib(?:\.\w+)+")
_WHOLE = re.compile(r"dtlib(?:\.\w+)+(?::\w+)?")  # a string that is only such a name
# A package that imports its modules by name, or lists them, needs all of them.
_DYNAMIC = ("import_module", "iter_modules")


def files_of(lesson: Lesson) -> list[Path]:
    """The files whose change may change what the lesson shows, in a fixed order.

    Imports inside functions count, and so do strings that are a dotted name (a what-if's function,
    `"dtlib.sim.flops"`). A package that makes its modules' names at run time counts as a whole.
    """
    own = [path for path in lesson.room.rglob("*") if path.suffix in (".py", ".json", ".csv")]
    own = [path for path in own if not _is_test(path.relative_to(lesson.room))]
    names = set(_DOTTED.findall(str(lesson.sidecar.get("what_if") or "")))
    for path in own:
        if path.suffix == ".py":
            names |= _names(_text(path))
    # What every lesson uses: its notebook's own calls and the ranks' side of them.
    names |= {"dtlib.learn", "dtlib.lessons.worker", "dtlib.ranks.worker", "dtlib.ranks.server"}
    return sorted(own) + sorted(_closure(names))


def _is_test(path: Path) -> bool:
    """Whether a file of a room is for its tests alone: no notebook loads it."""
    return path.parts[0] == "bank" or path.name.startswith("test_")


def _text(path: Path) -> str:
    """A module's text; for a lesson, that of its code cells without magics, which do not parse."""
    text = path.read_text(encoding="utf-8")
    if path.name != "lesson.py":
        return text
    cells = [solved(cell.text) for cell in parse(text) if cell.kind == "code"]
    return re.sub(r"^(\s*)%.*$", r"\1pass", "\n".join(cells), flags=re.M)


def _closure(names: set[str]) -> set[Path]:
    """The files of dtlib that these dotted names lead to, directly or through others."""
    found: set[Path] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        for path in _places(name) - found:
            found.add(path)
            waiting |= _needs(path)
    return found


def _places(name: str) -> set[Path]:
    """The module of a dotted name, or the one that defines its last part, and all above it."""
    parts = name.split(".")
    found = set()
    for depth in range(1, len(parts) + 1):
        place = ROOT.joinpath(*parts[:depth])
        if place.with_suffix(".py").is_file():
            found.add(place.with_suffix(".py"))
        elif place.is_dir():
            found |= {
                p for end in ("*.js", "*.html", "*.typ", "__init__.py") for p in place.glob(end)
            }
            found |= set(place.glob("js/*.js"))
    return found


@cache
def _needs(path: Path) -> frozenset[str]:
    """The dotted names in a module of dtlib."""
    if path.suffix != ".py":
        return frozenset()
    if path == ROOT / "dtlib" / "__init__.py":  # its table of public names: `_public` reads it
        return frozenset({"dtlib.errors"})
    text = path.read_text(encoding="utf-8")
    names = _names(text)
    if path.name == "__init__.py" and any(word in text for word in _DYNAMIC):
        inside = path.parent.rglob("*.py")
        names |= {".".join(p.relative_to(ROOT).with_suffix("").parts) for p in inside}
    return frozenset(names)


def _names(text: str) -> set[str]:
    """Every dotted name of dtlib that a text imports or has as a string."""
    found = set()
    for node in _walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(_DOTTED.findall(node.value)) if _WHOLE.fullmatch(node.value) else set()
        elif isinstance(node, ast.Attribute):
            found |= {f"dtlib.{node.attr}"} if getattr(node.value, "id", "") == "dtlib" else set()
    return {name for name in found if name.split(".")[0] == "dtlib"} | _public(found)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those of `if TYPE_CHECKING`, which import nothing when the program runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        yield child
        yield from _walk(child)


def _public(names: set[str]) -> set[str]:
    """The full names of the public names (`dtlib.train`) among these names."""
    return {
        f"{dtlib._HOME[last]}.{last}"
        for name in names
        if name.startswith("dtlib.") and (last := name.split(".")[1]) in dtlib._HOME
    }
