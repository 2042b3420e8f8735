"""Keep the source of an answer that passed, so that it can be run again.

An answer may use what other cells of the notebook define. So its text is made whole: first the
imports, then plain values, then the student's other functions and classes, then the answer.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

from dtlib.learn import history
from dtlib.learn.magic import names_read
from dtlib.learn.solutions import compiled
from dtlib.learn.source import Lesson

LONGEST = 2000  # characters of a value that is written down


class NotKept(Exception):
    """The answer cannot be written down; the message says why, to follow `it`."""


def keep(lesson: Lesson, name: str, function: Any) -> str:
    """Write an answer to `.dtlib/answers`, and return `""`, or why it could not be written.

    Never raises: what a student's notebook holds must not stop a check that has passed.
    """
    file = history.folder() / "answers" / lesson.stem / f"{name}.py"
    try:
        text = whole(function, lesson)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return ""
    except NotKept as error:
        why = str(error)
    except Exception as error:
        why = f"stopped dtlib with {type(error).__name__}"
    with contextlib.suppress(OSError):  # an older answer is not the one that passed last
        file.unlink(missing_ok=True)
    return why


def kept(lesson: Lesson, name: str) -> str | None:
    """The text of the answer that passed last, or None."""
    file = history.folder() / "answers" / lesson.stem / f"{name}.py"
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def whole(function: Any, lesson: Lesson) -> str:
    """Return a text that defines `answer`, with all that the function needs.

    Raises
    ------
    NotKept
        When it needs something that has no source and is no plain value.
    """
    gathered = _Gathered(lesson)
    gathered.define(function)
    top = "\n".join(gathered.imports + gathered.values)
    end = f"answer = {function.__name__}"
    return "\n\n\n".join(filter(None, [top, *gathered.definitions, end])) + "\n"


def restored(text: str) -> Callable[..., Any]:
    """Run a text of `whole`, in whose lesson one is, and return its answer.

    Raises whatever the text raises.
    """
    return compiled(text, "answer", {"__name__": "__main__"}, alone=True)


class _Gathered:
    """The parts of a text, each name once."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson = lesson
        self.imports: list[str] = []
        self.values: list[str] = []
        self.definitions: list[str] = []
        self._bound: dict[str, Any] = {}

    def define(self, thing: Any) -> None:
        """Add a function or class of the student's, after what it uses."""
        text = _source(thing)
        self._bound[thing.__name__] = thing
        scope = _scope(thing)
        for name in sorted(names_read(text) & scope.keys()):
            self._bind(name, scope[name], scope)
        self.definitions.append(text)

    def _bind(self, name: str, value: Any, scope: Mapping[str, Any]) -> None:
        if name in self._bound:
            if self._bound[name] is not value:
                raise NotKept(f"uses two different things that are called {name}")
            return
        if isinstance(value, types.ModuleType):
            self.imports.append(f"import {_called(self._place(value.__name__), name)}")
        elif home := _home(value, scope):
            called = _called(value.__name__, name)
            self.imports.append(f"from {self._place(home)} import {called}")
        elif isinstance(value, type | types.FunctionType):
            if self._bound.get(value.__name__) is not value:
                self.define(value)
            if value.__name__ != name:
                self.definitions.append(f"{name} = {value.__name__}")
        else:
            self.values.append(f"{name} = {_literal(name, value)}")
        self._bound[name] = value

    def _place(self, module: str) -> str:
        """A module's name in an import; a lesson's room is called `lesson` there."""
        first, dot, rest = module.partition(".")
        return f"lesson{dot}{rest}" if first == self.lesson.stem else module


def _called(name: str, here: str) -> str:
    return name if name == here else f"{name} as {here}"


def _scope(thing: Any) -> Mapping[str, Any]:
    """The globals in which a function, or a class by its methods, looks up names."""
    for one in (thing, *vars(thing).values()):
        if isinstance(one, types.FunctionType):
            return one.__globals__
    return vars(sys.modules.get(thing.__module__, builtins))


def _home(value: Any, scope: Mapping[str, Any]) -> str | None:
    """The module from which a function or class can be imported; None for the student's own."""
    name, module = getattr(value, "__name__", None), getattr(value, "__module__", None)
    if not callable(value) or not isinstance(name, str) or module == "__main__":
        return None
    # Functions of torch that are written in C name no module.
    modules = [sys.modules.get(str(module)), sys.modules.get("torch"), *scope.values()]
    for one in modules:
        if isinstance(one, types.ModuleType) and vars(one).get(name) is value:
            return one.__name__
    return None


def _source(thing: Any) -> str:
    """The text of a function or class in a cell; raises `NotKept` for anything else."""
    if not isinstance(thing, type | types.FunctionType):
        raise NotKept(f"is a {type(thing).__name__} and no function of a cell")
    if thing.__name__ == "<lambda>":
        raise NotKept("is, or uses, a lambda: only a def has a text of its own")
    if getattr(thing, "__closure__", None):
        raise NotKept(f"is, or uses, {thing.__name__}, which is made inside another function")
    try:
        text = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        text = _text_of_class(thing)
    try:
        names = [getattr(node, "name", None) for node in ast.parse(text).body]
    except SyntaxError:
        names = []
    if names != [thing.__name__]:
        raise NotKept(f"is, or uses, {thing.__name__}, whose text cannot be found")
    return text.rstrip()


def _text_of_class(thing: Any) -> str:
    """The text of a class in a cell, which Python's own `inspect` does not find there."""
    for method in vars(thing).values():
        if isinstance(method, types.FunctionType):
            lines = linecache.getlines(method.__code__.co_filename)
            for node in ast.walk(ast.parse("".join(lines))):
                if isinstance(node, ast.ClassDef) and node.name == thing.__name__:
                    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                    return textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))
    return ""


def _short(value: Any) -> bool:
    """Whether a value is plain and may be short; the `repr` of another could take long."""
    waiting, length = [value], 0
    while waiting and length <= LONGEST:
        one = waiting.pop()
        kind = type(one)
        length += 1
        if kind in (str, bytes, list, tuple, set, dict):
            length += len(one)
            if length <= LONGEST and kind not in (str, bytes):
                waiting += [*one, *one.values()] if kind is dict else one
        elif kind is int:
            length += one.bit_length() // 4  # a digit has fewer than 4 bits
        elif kind not in (bool, float, complex, types.NoneType):
            return False
    return length <= LONGEST


def _literal(name: str, value: Any) -> str:
    text, same = "", False
    if _short(value):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError):
            text = repr(value)
            same = len(text) <= LONGEST and bool(ast.literal_eval(text) == value)
    if not same:
        raise NotKept(f"uses {name}, a {type(value).__name__} that another cell made")
    return text
