"""The verdicts that a check gives, and the sentences that any exercise may need.

An exercise's own sentences stand in `lesson.yaml`, `mistakes: {name: {key: sentence}}`, so that a
translator finds them.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import re
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dtlib.errors import DtlibError
from dtlib.learn.sentences import fill

PACKAGE = f"{Path(__file__).parents[1]}/"  # dtlib, wherever it lies; answers may lie beside it


MESSAGE = 500  # characters of an exception's message: some name what they are about at the end


@dataclass(frozen=True)
class Passed:
    """The answer is right.

    Parameters
    ----------
    measures
        Rows `(what, yours, target, unit)`, for instance `("bytes sent", 96, 96, "bytes")`.
    note
        A sentence to go with it.
    """

    measures: tuple[tuple[str, Any, Any, str], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Stub:
    """Nothing is written yet. The machine finds this by itself, before a check is called."""


class NotJudged(DtlibError):
    """The check itself could not be made, so that nothing can be said of the answer."""


class Wrong(Exception):
    """One recognised mistake; a check returns or raises it.

    Parameters
    ----------
    mistake
        Key of the sentence in the sidecar.
    case
        The smallest case that shows it, for instance `"3 ranks, 6 elements"`.
    **numbers
        What the check saw; the sentence names these in braces.
    """

    def __init__(self, mistake: str, case: str = "", **numbers: Any) -> None:
        super().__init__(mistake)
        self.mistake = mistake
        self.case = case
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"Wrong({self.mistake!r}, case={self.case!r}, {self.numbers})"


Verdict = Passed | Stub | Wrong


class Exercise(Protocol):
    """What a room's `EXERCISES = {"name": exercise}` holds: an `Answer` or a `RankAnswer`."""

    @property
    def reference(self) -> Callable[..., Any]:
        """A right answer, which `learn.given` falls back on."""

    @property
    def after_pass(self) -> Callable[[Callable[..., Any]], Any] | None:
        """Called with the student's function once it passed; what it returns is shown."""

    def check(self, student: Callable[..., Any]) -> Verdict:
        """Give a verdict, or raise `Wrong` instead."""


# Sentences for what can happen in any exercise; a sidecar may say them better under the same keys.
COMMON = {
    "raised": "Your function stopped with {error} in {place}: {message}. What does that line work "
    "on there?",
    "unknown_name": "Your function stopped in {place}: {message}. Where does that name get its "
    "value?",
    "not_a_function": "The check needs the function itself, and got {got}: leave out the "
    "parentheses after its name. What would calling it hand over instead?",
    "none": "Your function returned None. Which value should it hand back?",
    "kind": "Rank {rank} of {n} returned a {got}, and numbers are expected. What should your "
    "function hand back?",
    "shape": "Rank {rank} of {n} returned shape {got} where {shape} is expected. Which of your "
    "lines changes the shape?",
    "value": "Rank {rank} of {n} returned {got}, and {want} is right. {reading} Can you follow one "
    "number by hand through this case?",
    "waits": "The {n} ranks did not finish: {who}. Who could have spoken first?",
    "loops": "Rank {rank} of {n} was still at work when its time was up, {place}. Does every loop "
    "of yours come to its end there?",
    "died": "Rank {rank} of {n} ended before it answered: {how}. Which of your calls can end a "
    "process, or receives more than its tensor holds?",
    "mismatch": "The {n} ranks met in one collective with different things: {what}. Outside this "
    "check gloo would crash or mix them up. Do all ranks make the same calls in the same order, "
    "with tensors of one size and dtype?",
    "unrecognised": "The result is not right, in a way that no sentence here foresaw ({seen}). "
    "What do you get for the smallest case on paper?",
}


def sentence(sidecar: Mapping[str, Any], exercise: str, wrong: Wrong) -> str:
    """The sidecar's sentence for a mistake, its numbers filled in.

    Raises
    ------
    KeyError
        When neither the sidecar nor `COMMON` has the key.
    """
    own = (sidecar.get("mistakes") or {}).get(exercise) or {}
    template = own.get(wrong.mistake) or COMMON[wrong.mistake]
    return " ".join(fill(template, wrong.numbers).split())


def stopped(error: str, message: str, place: str, case: str = "") -> Wrong:
    """The verdict on an exception in the student's code; `place` is a line of it in words."""
    key = "unknown_name" if error in ("NameError", "UnboundLocalError") else "raised"
    first = (message.strip().splitlines() or ["no message"])[0][:MESSAGE].rstrip(".!")
    return Wrong(key, case, error=error, message=first, place=place)


def stopped_here(error: BaseException, case: str = "") -> Wrong:
    """The verdict on an exception that the student's function raised in this process."""
    frame = innermost(error)
    place = place_in_words(frame.name, frame.lineno or 0, frame.line or "")
    return stopped(type(error).__name__, str(error), place, case)


def innermost(error: BaseException) -> traceback.FrameSummary:
    """Where in the student's own code an exception came from; a frame without a name if nowhere."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _machinery(frame.filename)]
    return own[-1] if own else traceback.FrameSummary("", 0, "")


def _machinery(filename: str) -> bool:
    """Whether a file belongs to Python, a package, dtlib or an exercise, and not to the student."""
    parts = (PACKAGE, "/torch/", "/site-packages/", "/lib/python3")
    if filename.endswith(".pyx") or re.search(r"/\d\d_\w+/exercises/", filename):
        return True
    return any(part in filename for part in parts)


def place_in_words(function: str, line: int, code: str = "", whose: str = "") -> str:
    """A line of the student's function; without a function, the call that never entered it."""
    place = f"line {line} of {function}" if function else "the call of your function"
    return f"{place}{whose}" + (f", `{code}`" if code else "")


# What Python writes into every class.
_HOUSEKEEPING = ("__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__")


def fingerprint(thing: Any) -> str:
    """Tell two versions of a function or class apart by what they do; comments do not count."""
    return hashlib.sha256(repr(_shape(thing)).encode()).hexdigest()[:16]


def _shape(thing: Any) -> Any:
    if isinstance(thing, types.CodeType):
        consts = [_shape(c) for c in thing.co_consts]
        return (thing.co_code, consts, thing.co_names, thing.co_varnames)
    if isinstance(thing, type):
        return [(k, _shape(v)) for k, v in vars(thing).items() if k not in _HOUSEKEEPING]
    if isinstance(thing, (staticmethod, classmethod)):
        return _shape(thing.__func__)
    if hasattr(thing, "__code__"):
        return _shape(thing.__code__)
    return type(thing).__name__ if callable(thing) else thing


def is_stub(thing: Any, stub_source: str | None) -> bool:
    """Whether a function is still what the student was given.

    That is the lesson's own stub, compiled, or a body of nothing but a docstring, `...` or `pass`.
    A function that works and returns None is an answer.
    """
    if stub_source is not None:
        namespace: dict[str, Any] = {}
        try:
            tree = _WithoutSurroundings().visit(ast.parse(stub_source))
            exec(compile(ast.fix_missing_locations(tree), "<stub>", "exec"), namespace)
        except Exception:  # it may need names of the notebook: then only its body tells
            namespace = {}
        given = namespace.get(getattr(thing, "__name__", ""))
        if given is not None and fingerprint(given) == fingerprint(thing):
            return True
    code = getattr(thing, "__code__", None)
    return code is not None and _does_nothing(code)


def _does_nothing(code: types.CodeType) -> bool:
    """Whether a code object holds no work and returns None."""
    loads = ("LOAD_CONST", "RETURN_CONST")
    return all(
        i.opname in ("RESUME", "NOP", "CACHE", "RETURN_VALUE")
        or (i.opname in loads and i.argval is None)
        for i in dis.get_instructions(code)
    )


class _WithoutSurroundings(ast.NodeTransformer):
    """A stub without its decorators, annotations, defaults and bases: those need the notebook."""

    def visit_FunctionDef(self, node: Any) -> Any:
        node.decorator_list, node.returns = [], None
        for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            arg.annotation = None
        node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
        node.args.kw_defaults = [d and ast.Constant(None) for d in node.args.kw_defaults]
        return node  # what is in a function runs when it is called

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list, node.bases, node.keywords = [], [], []
        return self.generic_visit(node)
