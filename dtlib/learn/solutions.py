"""The solution of an exercise, taken from its lesson, and variants with some of its text replaced.

A lesson holds the only copy of a solution. Most mistakes are that solution with one thing changed,
so a mistake may be written as the text that changes: `{"label != -100": "True"}`.
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
        `globals()` of the module that calls this. The solution looks up there what earlier cells
        of the lesson have imported (`torch`, `dist`, `statistics` …).

    Raises
    ------
    BadInput
        When the module is in no lesson's room, the lesson defines no such function, or a name that
        the function uses is not in `names`.
    """
    lesson = _lesson_of(names["__name__"])
    text = lesson.definition(name)
    if text is None:
        raise BadInput(f"lesson {lesson.number} has no solution {name!r} in an exercise cell.")
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
    """The lesson whose room holds a module; tests may import the room by a longer name."""
    for lesson in source.lessons():
        if lesson.stem in module.split("."):
            return lesson
    raise BadInput(f"{module} is in no lesson's room, so there is no solution to look up.")


def compiled(
    text: str, name: str, names: dict[str, Any], *, alone: bool = False
) -> Callable[..., Any]:
    """The function `name` that a source text defines, with `names` as its globals.

    With `alone`, everything that the text defines becomes part of `names`.
    """
    filename = f"<{name} {next(_number)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    defined: dict[str, Any] = names if alone else {}
    exec(compile(text, filename, "exec"), names, defined)
    function: Callable[..., Any] = defined[name]
    return function


def altered(function: Callable[..., Any], words: Mapping[str, str]) -> Callable[..., Any]:
    """The function with parts of its source replaced, one after the other.

    Raises
    ------
    BadInput
        When a text to replace is not in the source exactly once.
    """
    text = textwrap.dedent(inspect.getsource(function))
    for old, new in words.items():
        count = text.count(old)
        if count != 1:
            raise BadInput(
                f"{old!r} occurs {count} times in the solution of {function.__name__}, but must "
                "occur exactly once: the text that a mistake changes must be unambiguous."
            )
        text = text.replace(old, new)
    try:
        return compiled(text, function.__name__, function.__globals__)
    except SyntaxError as error:
        what = f"with {dict(words)}, {function.__name__} is not valid Python: {error}"
        raise BadInput(what) from None


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters."""
    return tuple(inspect.signature(function).parameters)


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Names that a function, or one inside it, looks up outside of itself."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals_of(inner)
