"""The verdicts that a check gives, and the sentences that any exercise may need.

An exercise's own sentences are in `lesson.yaml`, under `mistakes: {name: {key: sentence}}`, where a
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

PACKAGE = f"{Path(__file__).parents[1]}/"  # dtlib, wherever it is; answers may be beside it


MESSAGE = 500  # characters of an exception's message: some name their subject at the end
CPP_STACK = re.compile(r"^(?:Exception raised from |frame #\d+: )", re.MULTILINE)


@dataclass(frozen=True)
class Passed:
    """The answer is right.

    Parameters
    ----------
    measures
        Rows `(what, yours, target, unit)`, for instance `("bytes sent", 96, 96, "bytes")`.
    note
        A sentence to show with the verdict.
    """

    measures: tuple[tuple[str, Any, Any, str], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Stub:
    """The student has written nothing yet. This is detected before a check is called."""


class NotJudged(DtlibError):
    """The check itself could not run, so it says nothing about the answer."""


class Wrong(Exception):
    """One recognised mistake; a check returns or raises it.

    Parameters
    ----------
    mistake
        Key of the sentence in the sidecar.
    case
        The smallest case that shows it, for instance `"3 ranks, 6 elements"`.
    **numbers
        What the check saw; the sentence refers to these in braces.
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
        """A right answer; `learn.given` falls back on it."""

    @property
    def after_pass(self) -> Callable[[Callable[..., Any]], Any] | None:
        """Called with the student's function once it has passed; its result is shown."""

    def check(self, student: Callable[..., Any]) -> Verdict:
        """Give a verdict, or raise `Wrong` instead."""


# Sentences for what can happen in any exercise; a sidecar may replace them under the same keys.
COMMON = {
    "raised": "Your function stopped with {error} in {place}: {message}. What values does that "
    "line work with?",
    "unknown_name": "Your function stopped in {place}: {message}. Where does that name get its "
    "value?",
    "not_a_function": "The check needs the function itself, but got {got}: leave out the "
    "parentheses after its name. What does the check receive if you call the function first?",
    "none": "Your function returned None. Which value should it return?",
    "kind": "{who} returned a value of type {got}, but numbers are expected. What should your "
    "function return?",
    "rounded": "You return {got} where {want} is right: the same number with fewer digits. Which "
    "of your lines rounds, or converts to a type that holds fewer?",
    "salted": "Your result depends on `hash({text})`. Python salts the hash of a text, so every "
    "process has another number there, and so has every rank. Which of your numbers are the same "
    "in all processes?",
    "shape": "{who} returned shape {got}, but {shape} is expected. Which of your "
    "lines changes the shape?",
    "value": "{who} returned {got}, but {want} is right. {reading} Can you trace one "
    "number through this case by hand?",
    "too_large": "Your function took more than {got:.0f} GiB of memory in {place}. What grows "
    "there from one round to the next?",
    "waits": "The {n} ranks did not finish: {who}. Which call of another rank "
    "would end the first of these waits, and does that rank get there?",
    "loops": "{who} was still busy when its time ran out, {place}. Does every loop "
    "there come to an end?",
    "died": "Rank {rank} of {n} ended before it answered: {how}. Which of your calls can end a "
    "process, or receive more than its tensor holds?",
    "mismatch": "The {n} ranks did not make the same collective call: {what}. Outside this "
    "check gloo would crash or mix them up. Do all ranks make the same calls in the same order, "
    "with tensors of the same size and dtype?",
    "unrecognised": "The result is wrong in a way that this check does not recognise ({seen}). "
    "What do you get for the smallest case on paper?",
}


def sentence(sidecar: Mapping[str, Any], exercise: str, wrong: Wrong) -> str:
    """The sidecar's sentence for a mistake, with its numbers filled in.

    Raises
    ------
    KeyError
        When neither the sidecar nor `COMMON` has the key.
    """
    own = (sidecar.get("mistakes") or {}).get(exercise) or {}
    template = own.get(wrong.mistake) or COMMON[wrong.mistake]
    seen = dict(wrong.numbers)
    if "rank" in seen and "n" in seen:  # many exercises have no ranks
        alone = "Your function" if seen["n"] == 1 else f"Rank {seen['rank']} of {seen['n']}"
        seen.setdefault("who", alone)  # a list of several ranks, where the check has one
    return " ".join(fill(template, seen).split())


def stopped(error: str, message: str, place: str, case: str = "") -> Wrong:
    """The verdict on an exception in the student's code; `place` names its line in words."""
    key = "unknown_name" if error in ("NameError", "UnboundLocalError") else "raised"
    own = CPP_STACK.split(message)[0]  # torch's C++ frames name no line of the student's
    line = " ".join(own.split())[:MESSAGE].rstrip(" .!") or "no message"
    return Wrong(key, case, error=error, message=line, place=place)


def stopped_here(error: BaseException, case: str = "") -> Wrong:
    """The verdict on an exception that the student's function raised in this process."""
    frame = innermost(error)
    place = place_in_words(frame.name, frame.lineno or 0, frame.line or "")
    return stopped(type(error).__name__, str(error), place, case)


def innermost(error: BaseException) -> traceback.FrameSummary:
    """The student's own frame that an exception came from; a frame without a name if none did."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not machinery(frame.filename)]
    return own[-1] if own else traceback.FrameSummary("", 0, "")


def machinery(filename: str) -> bool:
    """Whether a file belongs to Python, a package, dtlib or an exercise, and not to the student."""
    parts = (PACKAGE, "/torch/", "/site-packages/", "/lib/python3")
    if filename.endswith(".pyx") or re.search(r"/\d\d_\w+/exercises/", filename):
        return True
    return any(part in filename for part in parts)


def place_in_words(function: str, line: int, code: str = "", whose: str = "") -> str:
    """Name a line of the student's function, or the call if the function was never entered."""
    place = f"line {line} of {function}" if function else "the call of your function"
    return f"{place}{whose}" + (f", `{code}`" if code else "")


# Attributes that Python adds to every class.
_HOUSEKEEPING = ("__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__")


def fingerprint(thing: Any) -> str:
    """Hash what a function or class does, to tell two versions apart; comments do not count."""
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
    """Whether a function is still the stub that the student was given.

    That is the lesson's own stub, compiled, or a body of nothing but a docstring, `...` or `pass`.
    A function that does some work and returns None counts as an answer.
    """
    if stub_source is not None:
        namespace: dict[str, Any] = {}
        try:
            tree = _WithoutSurroundings().visit(ast.parse(stub_source))
            exec(compile(ast.fix_missing_locations(tree), "<stub>", "exec"), namespace)
        except Exception:  # it may need the notebook's names: judge it by its body alone
            namespace = {}
        given = namespace.get(getattr(thing, "__name__", ""))
        if given is not None and fingerprint(given) == fingerprint(thing):
            return True
    code = getattr(thing, "__code__", None)
    return code is not None and _does_nothing(code)


def _does_nothing(code: types.CodeType) -> bool:
    """Whether a code object does no work and returns None."""
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
        return node  # a function's body runs only when it is called

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list, node.bases, node.keywords = [], [], []
        return self.generic_visit(node)
