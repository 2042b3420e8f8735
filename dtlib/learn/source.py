"""Read a lesson's source: py:percent cells, the YAML header of its first cell, and its sidecar.

The builder makes notebooks from this, and a running lesson looks up its title, its stubs and its
solutions here, so that each is written down once.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput, did_you_mean

STUB = "...  # your code here"

_MARKER = re.compile(r"^# %%(?: \[(?P<kind>markdown|raw)\])?(?: tags=(?P<tags>\[[^\]]*\]))?$")
_REGION = re.compile(r"^([ \t]*)### BEGIN SOLUTION\n.*?^[ \t]*### END SOLUTION\n?", re.S | re.M)
_MARKS = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION\n?", re.M)
# In a py file a line of magic is a comment, as jupytext writes it: "# %%ranks 4", "# %matplotlib".
_MAGIC = re.compile(r"^# (%{1,2}[A-Za-z_]\w*\b.*)$", re.M)


@dataclass
class Cell:
    """One cell: its kind (`code`, `markdown` or `raw`), text, tags and line in the source file.

    `metadata` is the cell's notebook metadata besides its tags.
    """

    kind: str
    text: str
    tags: list[str] = field(default_factory=list)
    line: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


def stub(text: str) -> str:
    """Replace every `### BEGIN SOLUTION` … `### END SOLUTION` region by one stub line."""
    return _REGION.sub(lambda m: f"{m[1]}{STUB}\n", text.rstrip("\n") + "\n").rstrip("\n")


def solved(text: str) -> str:
    """Keep the solutions and drop the two marks around them."""
    return _MARKS.sub("", text.rstrip("\n") + "\n").rstrip("\n")


def parse(text: str) -> list[Cell]:
    """Split a py:percent text into cells; anything before the first marker is dropped.

    Raises
    ------
    BadInput
        For a line that looks like a marker but is not one.
    """
    cells: list[Cell] = []
    bodies: list[list[str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if marker := _MARKER.match(line):
            tags = ast.literal_eval(marker["tags"] or "[]")
            cells.append(Cell(marker["kind"] or "code", "", tags, number))
            bodies.append([])
        elif line.startswith("# %% "):
            raise BadInput(
                f"line {number}, {line!r}, begins no cell: write # %%, # %% [markdown] or "
                '# %% [raw], optionally followed by tags=["exercise"].'
            )
        elif bodies:
            bodies[-1].append(line)
    for cell, lines in zip(cells, bodies, strict=True):
        cell.text = _body(cell.kind, lines)
    return cells


def _body(kind: str, lines: list[str]) -> str:
    if kind == "code":
        return _MAGIC.sub(r"\1", "\n".join(lines).strip("\n"))
    return "\n".join(re.sub(r"^# ?", "", line) for line in lines).strip("\n")


@dataclass
class Lesson:
    """A lesson's source, `lesson.py` in the lesson's room, with what can be read from it."""

    path: Path

    @property
    def room(self) -> Path:
        """The lesson's folder."""
        return self.path.parent

    @property
    def stem(self) -> str:
        """`07_ranks_and_collectives`: the name of the room and of its package."""
        return self.room.name

    @property
    def number(self) -> str:
        """`07`"""
        return self.stem.split("_", 1)[0]

    @property
    def name(self) -> str:
        """`ranks_and_collectives`"""
        return self.stem.split("_", 1)[1]

    @property
    def next(self) -> str | None:
        """The number of the next lesson of the path that is in the folder, if there is one."""
        path = path_of(self.room.parent)
        if self.number not in path:
            return None
        there = {lesson.number for lesson in lessons(self.room.parent)}
        return next((n for n in path[path.index(self.number) + 1 :] if n in there), None)

    @cached_property
    def text(self) -> str:
        """The whole source file."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells, the header's first."""
        return parse(self.text)

    @cached_property
    def header(self) -> dict[str, Any]:
        """The YAML of the first cell (lines of three dashes may surround it)."""
        first = self.cells[0].text if self.cells else ""
        return yaml_mapping(
            first.strip().strip("-"), self.path, "a source whose first cell is a YAML header"
        )

    @cached_property
    def sidecar(self) -> dict[str, Any]:
        """The YAML file beside the source; `{}` when there is none."""
        beside = self.room / "lesson.yaml"
        if not beside.exists():
            return {}
        return yaml_mapping(beside.read_text(encoding="utf-8"), beside, "a mapping of YAML")

    def words(self, text: str) -> str:
        """A text in the lesson's language: the text itself, unless the lesson is translated."""
        return text

    def entry(self, part: str, name: str) -> dict[str, Any]:
        """The sidecar's entry under a name: `entry("predictions", "bytes")`.

        Raises `BadInput` when there is none; the message lists the names that exist.
        """
        there = self.sidecar.get(part) or {}
        if name not in there:
            raise BadInput(
                f"the sidecar of lesson {self.number} has no {part.removesuffix('s')} {name!r}; it "
                f"has {', '.join(there) or 'none'}." + did_you_mean(name, there)
            )
        return there[name]

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The names that the cell tagged `parameters` assigns, with the values of literals."""
        found: dict[str, Any] = {}
        for cell in self.cells:
            if "parameters" in cell.tags and cell.kind == "code":
                for node in ast.parse(cell.text).body:
                    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
                        continue
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for target in targets:
                        if isinstance(target, ast.Name):
                            found[target.id] = _plain(node.value)
        return found

    def definition(self, name: str, *, as_stub: bool = False) -> str | None:
        """The source of function or class `name`: its last definition in exercises or solutions.

        Parameters
        ----------
        name
            The function or class.
        as_stub
            Return the stub that the student is given; solution cells are then ignored.
        """
        tag, cut = ("exercise", stub) if as_stub else ("solution", solved)
        found = None
        for cell in self.cells:
            if cell.kind == "code" and {"exercise", tag} & set(cell.tags):
                text = cut(cell.text)
                try:
                    body = ast.parse(text).body
                except SyntaxError:  # a cell magic: it defines nothing to check
                    continue
                for node in body:
                    if getattr(node, "name", None) == name:
                        found = ast.get_source_segment(text, node)
        return found


def yaml_mapping(text: str, path: Path, what: str) -> dict[str, Any]:
    """The mapping in the text of a file; `BadInput` says what the file should be."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        line = " ".join(str(error).split())
        raise BadInput(
            f"{_named(path)} cannot be read as YAML ({line}); it should be {what}."
        ) from None
    if not isinstance(value, dict):
        raise BadInput(f"{_named(path)} is not {what}: `key: value` lines are expected.")
    return value


def _named(path: Path) -> str:
    """A file of a room as a sentence names it: `07_ranks_and_collectives/lesson.yaml`."""
    return f"{path.parent.name}/{path.name}"


def course(folder: Path | None = None) -> dict[str, Any]:
    """What `path.yaml` says about the course: its parts and the path through them.

    Returns
    -------
    dict
        `{}` for a folder of lessons without that file.
    """
    file = (folder or sources_folder()) / "path.yaml"
    if not file.exists():
        return {}
    return yaml_mapping(file.read_text(encoding="utf-8"), file, "a mapping of YAML")


def path_of(folder: Path | None = None) -> list[str]:
    """The path's lesson numbers in order; this order, not the numbers, decides what is "next"."""
    return list(course(folder).get("path") or [])


def sources_folder() -> Path:
    """Find `lessons_src`: `DTLIB_LESSONS`, then upwards from here, then beside the package.

    Raises
    ------
    BadInput
        When none of these is a folder.
    """
    named = os.environ.get("DTLIB_LESSONS")
    if named:
        places = [Path(named)]
    else:
        here = Path.cwd()
        places = [p / "lessons_src" for p in (here, *here.parents, Path(__file__).parents[2])]
    for place in places:
        if place.is_dir():
            return place.resolve()
    raise BadInput(
        f"no folder of lessons was found; looked for {', '.join(map(str, places))}; run this in a "
        "clone of the course, or set DTLIB_LESSONS to its lessons_src folder."
    )


def lessons(folder: Path | None = None) -> list[Lesson]:
    """All lessons of a folder (default: `sources_folder()`), by number."""
    found = sorted((folder or sources_folder()).glob("[0-9][0-9]_*/lesson.py"))
    return [Lesson(path) for path in found]


def find(number: str | int, folder: Path | None = None) -> Lesson:
    """The lesson with this number (`7`, `"07"`), name, or name of its folder.

    Raises
    ------
    BadInput
        When there is none.
    """
    wanted = str(number).rstrip("/")
    if wanted.isdigit():
        wanted = wanted.zfill(2)
    everything = lessons(folder)
    for lesson in everything:
        if wanted in (lesson.number, lesson.stem, lesson.name):
            return lesson
    names = [lesson.stem for lesson in everything]
    raise BadInput(
        f"there is no lesson {number!s}; the lessons here are {', '.join(names) or 'none'}."
        + did_you_mean(wanted, names)
    )


def _plain(node: ast.expr | None) -> Any:
    """The value of a literal such as 40 or [1, 2], otherwise None."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None
