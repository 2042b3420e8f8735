"""The right answer of an exercise, taken from its lesson, and what becomes of it with other words.

A lesson holds the only copy of a solution. A mistake is mostly that solution with one thing
changed, so it may be written as the words that change: `{"label != -100": "True"}`.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import itertools
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dtlib.errors import BadInput
from dtlib.learn import source

_number = itertools.count(1)  # two programs never share a file name: tracebacks look lines up by it


def solution(name: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The lesson's own solution of an exercise, as a function.

    Parameters
    ----------
    name
        The exercise.
    names
        `globals()` of the module that calls this. The solution finds there what the lesson's cells
        had imported before (`torch`, `dist`, `statistics` …).

    Raises
    ------
    BadInput
        When the module lies in no lesson's room, the lesson defines no such function, or a name
        that this uses is not in `names`.
    """
    lesson = _lesson_of(names["__name__"])
    text = lesson.definition(name)
    if text is None:
        raise BadInput(f"lesson {lesson.number} has no solution {name!r} in a cell of an exercise.")
    function = compiled(text, name, names)
    missing = [word for word in _globals_of(function.__code__) if word not in names]
    missing = [word for word in missing if not hasattr(builtins, word)]
    if missing:
        raise BadInput(
            f"the solution of {name} in lesson {lesson.number} uses {', '.join(missing)}: import "
            f"or define it in {names['__name__']}, above the call of solution()."
        )
    return function


def _lesson_of(module: str) -> source.Lesson:
    """The lesson in whose room a module lies; tests may know the room by a longer name."""
    for lesson in source.lessons():
        if lesson.stem in module.split("."):
            return lesson
    raise BadInput(f"{module} lies in no lesson's room, so there is no solution to look up.")


def compiled(text: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function `name` that a source text defines, with `names` as its globals."""
    filename = f"<{name} {next(_number)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    defined: dict[str, Any] = {}
    exec(compile(text, filename, "exec"), names, defined)
    function: Callable[..., Any] = defined[name]
    return function


def altered(function: Callable[..., Any], words: Mapping[str, str]) -> Callable[..., Any]:
    """The function with some words of its source exchanged, one after the other.

    Raises
    ------
    BadInput
        When a text to exchange is not in the source exactly once.
    """
    text = textwrap.dedent(inspect.getsource(function))
    for old, new in words.items():
        count = text.count(old)
        if count != 1:
            raise BadInput(
                f"{old!r} stands {count} times in the solution of {function.__name__}, and once is "
                "needed: a mistake says exactly which words it changes."
            )
        text = text.replace(old, new)
    try:
        return compiled(text, function.__name__, function.__globals__)
    except SyntaxError as error:
        raise BadInput(f"{dict(words)} makes no program of {function.__name__}: {error}") from None


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of what a function takes."""
    return tuple(inspect.signature(function).parameters)


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Names that a function, or one inside it, looks up outside of itself."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals_of(inner)
