"""The mutants of an exercise's solution: all that the operators make, or a sample of them.

Seed and cap are fixed here, before anything is counted. The sample takes from each operator in
turn, so that an operator with few mutants is not drowned by one with many.
"""

import ast
import difflib
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dtlib.learn import source
from dtlib.learn.solutions import compiled, parameters
from dtlib.learn.verdicts import fingerprint
from mutation import expressions, statements

SEED = 13
CAP = 60  # mutants of one exercise

_BEGIN, _END = "### BEGIN SOLUTION", "### END SOLUTION"


@dataclass(frozen=True)
class Mutant:
    """A changed solution: the operator that made it, its name, and its text."""

    operator: str
    name: str  # "operator: old => new", the lines that differ; the same in each run
    text: str

    def program(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with the globals of the solution."""
        return compiled(self.text, reference.__name__, reference.__globals__)


def mutants_of(lesson: source.Lesson, check: Any) -> list[Mutant]:
    """The sample of an exercise."""
    return sample(all_of(lesson, check), f"{SEED} {lesson.number} {check.reference.__name__}")


def all_of(lesson: source.Lesson, check: Any) -> list[Mutant]:
    """All mutants of an exercise that are another program than its solution."""
    text, region = solution_of(lesson, check.reference.__name__)
    everything = make(text, region, plain_values(check))
    own = fingerprint(check.reference)
    return [m for m in everything if fingerprint(m.program(check.reference)) != own]


def sample(everything: list[Mutant], seed: str, cap: int = CAP) -> list[Mutant]:
    """At most `cap` of them, one of each operator in turn, in the order they came in."""
    groups: dict[str, list[int]] = {}
    for place, mutant in enumerate(everything):
        groups.setdefault(mutant.operator, []).append(place)
    generator = random.Random(seed)
    for group in groups.values():
        generator.shuffle(group)
    turns = itertools.zip_longest(*groups.values())
    chosen = [place for turn in turns for place in turn if place is not None][:cap]
    return [everything[place] for place in sorted(chosen)]


def solution_of(lesson: source.Lesson, name: str) -> tuple[str, set[int]]:
    """The text of a solution, and which of its lines the student writes."""
    found: tuple[str, set[int]] = ("", set())
    for cell in lesson.cells:
        if cell.kind != "code" or not {"exercise", "solution"} & set(cell.tags):
            continue
        lines, own, inside = [], set(), "exercise" not in cell.tags
        for line in cell.text.splitlines():
            if line.strip() in (_BEGIN, _END):
                inside = line.strip() == _BEGIN
                continue
            lines.append(line)
            if inside:
                own.add(len(lines))
        text = "\n".join(lines)
        try:
            body = ast.parse(text).body
        except SyntaxError:  # a cell magic
            continue
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                part = ast.get_source_segment(text, node) or ""
                found = part, {line - node.lineno + 1 for line in own}
    return found


def plain_values(check: Any) -> dict[str, Any]:
    """What the solution's parameters are in the smallest case, where they are numbers or words."""
    first = check.cases[0]
    given = first[1]
    if len(first) > 2 and callable(first[2]):  # on ranks: (ranks, words, make)
        given = first[2](0, first[0])
        given = given if isinstance(given, tuple) else (given,)
    elif callable(given):
        given = given()
    names = parameters(check.run)[1:] if check.run else parameters(check.reference)
    own = set(parameters(check.reference))
    pairs = zip(names, given, strict=False)
    return {n: v for n, v in pairs if n in own and type(v) in (int, float, str, bool)}


def make(text: str, region: set[int], values: Mapping[str, Any] | None = None) -> list[Mutant]:
    """All mutants of a function, each text once."""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    plain = ast.unparse(function)
    found: dict[str, Mutant] = {plain: Mutant("", "", plain)}
    names: dict[str, int] = {}
    for operator, new in _texts(function, region, values or {}):
        try:
            new = ast.unparse(ast.parse(new))  # also: only what Python can read
            compile(new, "<mutant>", "exec")
        except SyntaxError:
            continue
        if new not in found:
            name = f"{operator}: {difference(plain, new)}"
            names[name] = names.get(name, 0) + 1
            if names[name] > 1:
                name = f"{name} ({names[name]})"
            found[new] = Mutant(operator, name, new)
    del found[plain]
    return list(found.values())


def _texts(
    function: ast.FunctionDef, region: set[int], values: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Operator and text, site by site. Nodes are exchanged in place and put back."""
    for parent, field, index, node in list(_places(function)):
        if getattr(node, "lineno", next(iter(region), 0)) not in region:
            continue
        for operator, new in _replacements(node, values):
            container = getattr(parent, field)
            if isinstance(new, list):
                setattr(parent, field, [*container[:index], *new, *container[index + 1 :]])
                if not getattr(parent, field) and field == "body":
                    setattr(parent, field, [ast.Pass()])
            elif index is None:
                setattr(parent, field, new)
            else:
                setattr(parent, field, [*container[:index], new, *container[index + 1 :]])
            yield operator, ast.unparse(ast.fix_missing_locations(function))
            setattr(parent, field, container)
    yield from _swapped_statements(function, region)
    for line, twin in statements.kept_state(function):
        if line in region:
            yield "kept_state", ast.unparse(ast.fix_missing_locations(twin))


def _replacements(node: ast.AST, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.stmt):
        for statement in statements.STATEMENTS:
            for several in statement(node):
                yield statement.__name__, several
    else:
        for expression in expressions.EXPRESSIONS:
            for new in expression(node, values):
                yield expression.__name__, new


def _places(root: ast.AST) -> Iterator[tuple[ast.AST, str, Any, ast.AST]]:
    """Every node below a function's signature and docstring: parent, field, place in it, node."""
    for field, value in ast.iter_fields(root):
        if isinstance(root, ast.FunctionDef) and field != "body":
            continue
        several = value if isinstance(value, list) else [value]
        for index, node in enumerate(several):
            if not isinstance(node, ast.AST) or _is_docstring(node):
                continue
            yield root, field, index if isinstance(value, list) else None, node
            yield from _places(node)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _stays(node: ast.stmt) -> bool:
    """Whether a statement keeps its place: behind a `return` nothing happens."""
    return isinstance(node, ast.Return) or _is_docstring(node)


def _swapped_statements(function: ast.FunctionDef, region: set[int]) -> Iterator[tuple[str, str]]:
    """Two statements in a row change places."""
    for parent in list(ast.walk(function)):
        for field in ("body", "orelse"):
            body = getattr(parent, field, None)
            if not isinstance(body, list):
                continue
            for i in range(len(body) - 1):
                two = body[i], body[i + 1]
                if all(node.lineno in region for node in two) and not any(map(_stays, two)):
                    new = [*body[:i], body[i + 1], body[i], *body[i + 2 :]]
                    setattr(parent, field, new)
                    yield "swap_statements", ast.unparse(function)
                    setattr(parent, field, body)


def difference(old: str, new: str) -> str:
    """What differs, in one line: `old => new`, or which line moved where."""
    before, after = old.splitlines(), new.splitlines()
    gone, come = _lines(*([line.strip() for line in text] for text in (before, after)))
    if not gone and not come:  # one that left a loop in its place
        gone, come = _lines(before, after)
    words = [[text.strip() for _, text in side] for side in (gone, come)]
    if sorted(words[0]) == sorted(words[1]):
        lines = [", ".join(str(number) for number, _ in side) for side in (gone, come)]
        return f"{' | '.join(words[0])} => moved from line {lines[0]} to {lines[1]}"
    if len(gone) == len(come) == 1:
        words = [[text] for text in _cut(words[0][0], words[1][0])]
    return " => ".join(" | ".join(side) for side in words).strip()


def _lines(old: list[str], new: list[str]) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The lines that only one of the two texts has, with their numbers."""
    gone, come = [], []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            gone += [(k + 1, old[k]) for k in range(a, b)]
            come += [(k + 1, new[k]) for k in range(c, d)]
    return gone, come


def _cut(old: str, new: str, most: int = 80, around: int = 20) -> tuple[str, str]:
    """Two long lines without most of what they begin and end with alike."""
    if max(len(old), len(new)) <= most:
        return old, new
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    first, last = max(0, start - around), max(0, end - around)
    ends = "…" * (first > 0), "…" * (last > 0)
    return tuple(f"{ends[0]}{t[first : len(t) - last]}{ends[1]}" for t in (old, new))


def _alike(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((k for k, (x, y) in pairs if x != y), min(len(a), len(b)))
