"""The rules for a lesson's source; one sentence reports a rule that is broken."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from dtlib.errors import BadInput, did_you_mean
from dtlib.learn.quiz import drawn
from dtlib.learn.session import NEEDS
from dtlib.learn.source import Cell, Lesson, path_of, solved, stub
from dtlib.lessons.teaching.notes import EXERCISE_KEYS, LESSON_KEYS, is_named

TAGS = {
    "parameters", "exercise", "solution", "hint", "check", "quiz", "instructor", "slide", "stretch",
    "raises-exception",
}  # fmt: skip
SIDECAR = ("hints", "mistakes", "predictions", "quiz", "what_if", "notes")
# What a lesson calls by name, and the part of the sidecar that must have the name.
_REFERS = {
    "check": ("hints", "mistakes"), "hint": ("hints",), "what_if": ("what_if",),
    "predict": ("predictions",), "measured": ("predictions",),
}  # fmt: skip


def validate_all(everything: list[Lesson]) -> None:
    """Check every rule for all lessons of the course.

    Raises `BadInput` for the first rule that is broken; the sentence names file, line and rule.
    """
    for lesson in everything:
        _header(lesson)
        _cells(lesson)
        _exercises(lesson)
        _sidecar(lesson)
        _notes(lesson)
    _order(everything)


def _refuse(lesson: Lesson, what: str) -> NoReturn:
    raise BadInput(f"{lesson.stem}/lesson.py: {what}.")


def _header(lesson: Lesson) -> None:
    header = lesson.header
    for key in ("number", "title", "does", "objectives", "minutes", "needs", "builds_on"):
        if key not in header:
            _refuse(lesson, f"its header has no `{key}`")
    if str(header["number"]).zfill(2) != lesson.number:
        _refuse(lesson, f"its header says number {header['number']}, its folder {lesson.number}")
    objectives = header["objectives"]
    if not isinstance(objectives, list) or len(objectives) != 3:
        _refuse(lesson, "`objectives` must be a list of three things that the student can then do")
    minutes = header["minutes"]
    numbers = isinstance(minutes, dict) and all(
        isinstance(minutes.get(k), int) for k in ("read", "exercises")
    )
    if not numbers:
        _refuse(lesson, "`minutes` must hold whole numbers under `read` and `exercises`")
    unknown = set(header["needs"] or ["nothing"]) - set(NEEDS)
    if unknown:
        _refuse(lesson, f"`needs` must be among {', '.join(NEEDS)}, not {', '.join(unknown)}")
    if not all(isinstance(n, str) and re.fullmatch(r"\d\d", n) for n in header["builds_on"] or []):
        _refuse(lesson, '`builds_on` must list two-digit numbers in quotes, as ["00", "07"]')


def _cells(lesson: Lesson) -> None:
    parameters = [c for c in lesson.cells if "parameters" in c.tags]
    if len(parameters) != 1:
        _refuse(lesson, f"exactly one cell must be tagged `parameters`, not {len(parameters)}")
    for cell in lesson.cells:
        unknown = set(cell.tags) - TAGS
        if unknown:
            _refuse(lesson, f"line {cell.line}: unknown tag {', '.join(sorted(unknown))}")
        for offset, line in enumerate(cell.text.splitlines(), start=1):
            if cell.kind == "code" and re.match(r"\s*(# )?!", line):
                why = "a bare `!` hides its exit code; use subprocess.run(…, check=True)"
                _refuse(lesson, f"line {cell.line + offset}: {why}")
    for number, line in enumerate(lesson.text.splitlines(), start=1):
        if len(line) > 79 and "http" not in line and not line.startswith("# |"):
            _refuse(lesson, f"line {number} has {len(line)} columns; the limit is 79")


def _exercises(lesson: Lesson) -> None:
    """Only its check may use what an exercise defines: everything else runs without it."""
    defined: set[str] = set()
    code = [cell for cell in lesson.cells[1:] if cell.kind == "code"]
    for cell in code:
        if {"exercise", "solution"} & set(cell.tags):
            given = _defined(_tree(lesson, cell, stub(cell.text)), imports=True)
            whole = _tree(lesson, cell, solved(cell.text))
            if "exercise" in cell.tags and given != _defined(whole, imports=True):
                _refuse(lesson, f"line {cell.line}: solution and stub must define the same names")
            defined |= _defined(whole)
    for cell in code:
        tree = _tree(lesson, cell, solved(cell.text))
        nodes = list(ast.walk(tree))
        own = _defined(tree) | {node.arg for node in nodes if isinstance(node, ast.arg)}
        if "solution" in cell.tags:
            continue
        if "check" in cell.tags:  # learn.check("name", name)
            own |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        for name in sorted(defined & used - own):
            why = f"this cell needs `{name}`, which the student may not have written"
            _refuse(lesson, f'line {cell.line}: {why}; learn.given("{name}") has it')


def _tree(lesson: Lesson, cell: Cell, code: str) -> ast.Module:
    """The syntax tree of a cell without its magics."""
    try:
        return ast.parse(re.sub(r"^\s*%.*$", "", code, flags=re.M))
    except SyntaxError as error:
        _refuse(lesson, f"line {cell.line + (error.lineno or 0)}: {error.msg}")


def _defined(tree: ast.Module, *, imports: bool = False) -> set[str]:
    """Functions, classes and values that a cell defines, and with `imports` what it imports."""
    names = set()
    for node in _outside_of_functions(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif imports and isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return names


def _outside_of_functions(tree: ast.AST) -> Iterator[ast.AST]:
    scopes = ast.FunctionDef | ast.ClassDef | ast.Lambda | ast.ListComp | ast.GeneratorExp
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, scopes):
            yield from _outside_of_functions(node)


def calls(lesson: Lesson) -> Iterator[tuple[str, str, int]]:
    """Every `learn.function("name", …)` of a lesson: function, name, line in the source."""
    for cell in lesson.cells[1:]:
        if cell.kind != "code":
            continue
        for node in ast.walk(_tree(lesson, cell, solved(cell.text))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="learn"), attr=function),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    yield function, name, cell.line + node.lineno


def _sidecar(lesson: Lesson) -> None:
    sidecar = lesson.sidecar
    for key in sidecar:
        if key not in SIDECAR:
            known = f"{', '.join(SIDECAR)}.{did_you_mean(key, SIDECAR)}"
            raise BadInput(f"{lesson.stem}/lesson.yaml: unknown key {key!r}; choose from {known}")
    for function, name, line in calls(lesson):
        for part in _REFERS.get(function, ()):
            if name not in (sidecar.get(part) or {}):
                call = f'learn.{function}("{name}") at line {line}'
                _refuse(lesson, f"{call} needs `{part}: {name}` in lesson.yaml")
    for key, prediction in (sidecar.get("predictions") or {}).items():
        for option in prediction.get("options") or []:
            # The measurement decides which option is right.
            if unknown := set(option) - {"text", "when", "why"}:
                extra = ", ".join(sorted(unknown))
                _refuse(lesson, f"prediction {key}: an option may not have {extra}")
    for number, question in enumerate(sidecar.get("quiz") or [], start=1):
        _question(lesson, number, question)
    try:
        drawn(sidecar.get("quiz") or [], [])
    except BadInput as error:
        raise BadInput(f"{lesson.stem}/lesson.yaml: in the quiz, {error}") from None


def _question(lesson: Lesson, number: int, question: dict[str, Any]) -> None:
    options = question.get("options") or []
    right = sum(bool(option.get("right")) for option in options)
    if "question" not in question or len(options) < 2 or right != 1:
        needs = "needs a question and two options or more, exactly one of them right"
        _refuse(lesson, f"quiz question {number} {needs}; {right} are right")
    for option in options:
        if not option.get("why"):
            _refuse(lesson, f"quiz question {number}: option {option.get('text')!r} has no `why`")


def _notes(lesson: Lesson) -> None:
    """A lesson with exercises tells its instructor what to show, to ask and to leave out."""
    checked = [name for function, name, _ in calls(lesson) if function == "check"]
    notes = lesson.sidecar.get("notes") or {}
    for name in ["lesson", *checked] if checked else []:
        keys, given = LESSON_KEYS if name == "lesson" else EXERCISE_KEYS, notes.get(name)
        has = given if isinstance(given, dict) else {}
        missing = [key for key in keys if key not in has]
        unknown = [key for key in has if key not in keys]
        if missing or unknown:
            what = f"has no {', '.join(missing)}" if missing else f"may not have {unknown[0]}"
            _refuse_notes(lesson, f"`notes: {name}` {what}; it must have {', '.join(keys)}")
    for key, says in (("shows", "see"), ("skip", "why")):
        for one in (notes.get("lesson") or {}).get(key) or [] if checked else []:
            if not isinstance(one, dict) or set(one) != {"cell", says}:
                _refuse_notes(lesson, f"each of `{key}` must be {{cell: …, {says}: …}}")
            found = sum(is_named(cell, one["cell"]) for cell in lesson.cells)
            if found != 1:
                what = f"{one['cell']!r} is in {found} cells of code"
                _refuse_notes(lesson, f"`{key}` names one cell by a piece of its code, and {what}")
    if checked and not notes["lesson"]["shows"]:
        _refuse_notes(lesson, "`shows` names no cell: say what the room sees after a key cell")


def _refuse_notes(lesson: Lesson, what: str) -> NoReturn:
    raise BadInput(f"{lesson.stem}/lesson.yaml: {what}.")


def _order(everything: list[Lesson]) -> None:
    """Check that `builds_on` has no cycle, and that the path follows `builds_on`."""
    below = {lesson.number: list(lesson.header["builds_on"] or []) for lesson in everything}
    path = path_of(everything[0].room.parent) if everything else []
    done: set[str] = set()

    def descend(number: str, above: tuple[str, ...]) -> None:
        if number in above:
            circle = " → ".join((*above[above.index(number) :], number))
            raise BadInput(f"`builds_on` has a cycle: {circle}.")
        if number not in done:
            for other in below.get(number, []):
                descend(other, (*above, number))
            done.add(number)

    for lesson in everything:
        descend(lesson.number, ())
        for other in below[lesson.number]:
            both = lesson.number in path and other in path
            if both and path.index(other) > path.index(lesson.number):
                _refuse(lesson, f"it builds on {other}, which comes later on the path")
