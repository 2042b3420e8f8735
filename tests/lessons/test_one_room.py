"""dtlib holds nothing that belongs to one lesson: what one alone uses lies in its room."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import dtlib
from dtlib.learn.source import lessons
from dtlib.lessons import needed

ROOT = Path(dtlib.__file__).parents[1]
# Kernels are the public library's: a lesson builds the idea, and its readers import the kernel.
EXEMPT = {
    "dtlib.scratch.data_parallel.delayed_link": "the link that the overlap kernel takes for gloo",
    "dtlib.scratch.ring.shards": "the ring's two halves as a rank's shards: ZeRO's collectives",
    "dtlib.scratch.mesh": "the grid of ranks, on whose groups other kernels are tested",
    "dtlib.scratch.gradients": "the sum of gradients that context and expert parallelism share",
    "dtlib.scratch.context_parallel": "the package of ring attention and Ulysses",
    "dtlib.scratch.experts": "the package of a mixture of experts",
    "dtlib.scratch.local_steps.compare": "the runs of data parallel that sends less, by all ways",
    "dtlib.sim.layout": "formulas of lessons 11, 12 and 16 together, on a page without kernel",
    "dtlib.scratch.local_steps": "the package of data parallel that sends less",
    "dtlib.sim.local_steps": "its bytes, which the kernels' tests compare",
    "dtlib.scratch.zero": "the package of ZeRO's kernels, with the worker of its schedule",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in (ROOT / "dtlib").rglob("*.py")}


@cache
def passed_on(module: str) -> dict[str, str]:
    """Name → where it comes from, of what a package imports for others and does not use itself."""
    if MODULES[module].name != "__init__.py":
        return {}
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) not in used
    }


def home(name: str) -> str:
    """The module that a dotted name leads to, through the packages that pass it on."""
    parts = name.split(".")
    depth = next(d for d in range(len(parts), 0, -1) if ".".join(parts[:d]) in MODULES)
    module = ".".join(parts[:depth])
    further = passed_on(module).get(parts[depth]) if depth < len(parts) else None
    return home(further) if further else module


def users() -> dict[str, set[str]]:
    """Module of dtlib → who uses it: other modules by their names, rooms by their folders'."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for name in needed._needs(path) - set(passed_on(module).values()):
            found[home(name)].add(module)
    for lesson in lessons():
        names = set(needed._DOTTED.findall(str(lesson.sidecar.get("what_if") or "")))
        for path in lesson.room.rglob("*.py"):
            if not needed._is_test(path.relative_to(lesson.room)):
                text = needed._text(path)
                names |= needed._names(text)
                names |= {f"dtlib.learn.{name}" for name in re.findall(r"\blearn\.(\w+)", text)}
        for name in names:
            found[home(name)].add(lesson.room.name)
    return {module: by - {module} for module, by in found.items()}


def owned() -> dict[str, str]:
    """Module → the one room that alone reaches it, at first or second hand."""
    found: dict[str, str] = {}
    by_module = users()
    before = -1
    while before < len(found):
        before = len(found)
        for module, by in by_module.items():
            rooms = {found.get(user, user) for user in by}
            if module not in EXEMPT and len(rooms) == 1 and not rooms & MODULES.keys():
                found[module] = rooms.pop()
    return found


def test_no_module_of_dtlib_has_one_lesson_as_its_only_user() -> None:
    assert owned() == {}, "move each into the room beside it"


def test_exemptions_are_needed_still() -> None:
    by_module = users()
    for module in EXEMPT:
        assert len({user for user in by_module[module] if not user.startswith(module)}) == 1, module
