"""Common wrong answers to an exercise, with the sentence that each gets: a table for instructors.

It is made from the sidecar's sentences and from the text of the exercise's file and of its bank.
Nothing is imported or run, so a lesson's notebooks can be built where its packages are missing.
"""

from __future__ import annotations

import ast
import contextlib
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dtlib.learn.source import Cell, Lesson
from dtlib.lessons.markdown import folded

_SOLUTION = re.compile(r"""\bsolution\(\s*["'](\w+)["']""")
WIDE = 90  # characters of code that a cell of the table shows; a longer program is named


def wrong_answers(lesson: Lesson, name: str) -> list[Cell]:
    """A folded table of the known mistakes of an exercise; none if the lesson knows no mistakes."""
    sentences = (lesson.sidecar.get("mistakes") or {}).get(name)
    if not sentences:
        return []
    programs = _programs(lesson, name, set(sentences))
    rows = ["| answer | what the student reads |", "| --- | --- |"]
    for key, sentence in sentences.items():
        answer = programs.get(key) or key.replace("_", " ")
        rows.append(f"| {answer} | {_escaped(readable(sentence))} |")
    hints = [" ".join(text.split()) for text in (lesson.sidecar.get("hints") or {}).get(name) or []]
    lines = [f"{number}. {hint}" for number, hint in enumerate(hints, start=1)]
    said = "\n".join(rows)
    if hints:
        said += "\n\nWhoever makes the same mistake again gets the next of these hints as well:\n\n"
        said += "\n".join(lines)
    summary = f"Instructor: {len(sentences)} wrong answers to {name}, and what the check says"
    return [Cell("markdown", folded(summary, said))]


def readable(sentence: str) -> str:
    """A sentence of the sidecar whose blanks show what they are filled with: *got*, *rank + 1*."""
    parts = []
    for text, blank, _, _ in string.Formatter().parse(" ".join(sentence.split())):
        parts.append(text)
        if blank is not None:
            shown = re.sub(r"^(['\"])(.*)\1 if .* else .*$", r"\2", blank)  # a word or none
            in_code = "".join(parts).count("`") % 2
            parts.append(f"*{shown}*" if shown == blank and not in_code else shown)
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _programs(lesson: Lesson, name: str, keys: set[str]) -> dict[str, str]:
    """For each key the first program that makes the mistake, as a cell of the table shows it."""
    found: dict[str, str] = {}
    for path in _files(lesson, name):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        names = _names(tree)
        # A neighbour's programs are about its own function, which this exercise builds on.
        owned = _SOLUTION.findall(text) if path.parent.name == "exercises" else []
        where = f"in `{owned[0]}`: " if owned and name not in owned else ""
        for key, program in _pairs(tree):
            if key in keys and key not in found and (told := _told(program, names)):
                found[key] = where + told
    return found


def _files(lesson: Lesson, name: str) -> Iterator[Path]:
    """The exercise's file, the file of its bank, and the neighbours that they import."""
    for path in sorted(lesson.room.glob("exercises/*.py")):
        text = path.read_text(encoding="utf-8")
        if name in _SOLUTION.findall(text):
            yield path
            yield from filter(Path.exists, [lesson.room / "bank" / path.name])
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.level == 1:
                    names = [node.module] if node.module else [alias.name for alias in node.names]
                    yield from filter(Path.exists, [path.with_name(f"{n}.py") for n in names])


def _pairs(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Every `("key", program)` and `Mistake("key", program, …)` of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts=[ast.Constant(value=str(key)), program, *_]):
                yield key, program
            case ast.Call(func=ast.Name(id="Mistake"), args=[ast.Constant(value=str(key)), *rest]):
                named = [word.value for word in node.keywords if word.arg == "program"]
                for program in [*rest, *named][:1]:
                    yield key, program


def _told(program: ast.expr, names: dict[str, Any]) -> str:
    """A program in a cell of the table: changed words, short code, or what its docstring says."""
    try:
        words = _value(program, names)
    except LookupError:
        words = None
    if isinstance(words, dict):
        changes = [_change(str(old), str(new)) for old, new in words.items()]
        return "; ".join(changes)
    if isinstance(program, ast.Lambda):
        code = ast.unparse(program)
        return _code(code) if len(code) <= WIDE else ""
    function = names.get(program.id) if isinstance(program, ast.Name) else None
    if not isinstance(function, ast.FunctionDef):
        return ""
    body = [node for node in function.body if not _is_text(node)]
    code = "; ".join(ast.unparse(node) for node in body)
    if "\n" not in code and len(code) <= WIDE:
        return _code(code)
    first = (ast.get_docstring(function) or "").partition("\n")[0]
    return _escaped(first or function.name.replace("_", " "))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _change(old: str, new: str) -> str:
    return f"{_code(old)} → {_code(new)}" if new.strip() else f"without {_code(old)}"


def _code(text: str) -> str:
    """Code on one line, as a cell of a table holds it."""
    line = _escaped(re.sub(r"\s*\n\s*", "; ", text.strip()).replace(":; ", ": "))
    marks = "``" if "`" in line else "`"
    return f"{marks}{line}{marks}"


def _names(tree: ast.Module) -> dict[str, Any]:
    """A module's functions, and the values of its names that are text, numbers or dicts of them."""
    found: dict[str, Any] = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    for node in tree.body:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=False))
            case ast.Assign(targets=[name], value=value):
                pairs = [(name, value)]
        for name, value in pairs:
            if isinstance(name, ast.Name):
                with contextlib.suppress(LookupError):  # it is computed in some other way
                    found[name.id] = _value(value, found)
    return found


def _value(node: ast.expr | None, names: dict[str, Any]) -> Any:
    """The value of an expression of literals and known names; `LookupError` for any other."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.JoinedStr(values=values):
            return "".join(str(_value(value, names)) for value in values)
        case ast.FormattedValue(value=value, format_spec=None):
            return _value(value, names)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return str(_value(left, names)) + str(_value(right, names))
        case ast.Dict(keys=keys, values=values):
            found: dict[Any, Any] = {}
            for key, value in zip(keys, values, strict=True):
                one = _value(value, names)
                more = one if key is None else {_value(key, names): one}
                found |= more if isinstance(more, dict) else {}
            return found
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]):
            return _returned(names.get(name), [_value(one, names) for one in given], names)
    raise LookupError(ast.dump(node) if node else "nothing")


def _returned(function: Any, given: list[Any], names: dict[str, Any]) -> Any:
    """What a helper returns that only puts words together; `LookupError` for any other."""
    if not isinstance(function, ast.FunctionDef) or len(function.args.args) != len(given):
        raise LookupError("no helper of this module")
    inside = names | dict(zip((one.arg for one in function.args.args), given, strict=True))
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                inside[name] = _value(value, inside)
            case ast.Return(value=value):
                return _value(value, inside)
            case _ if not _is_text(statement):
                break
    raise LookupError(f"{function.name} does more than putting words together")
