"""A known mistake: the key of its sentence, and a program that makes it, written once.

The check tells an answer by what this program gives, and the tests run the same program: it has to
be refused with its own sentence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from dtlib.errors import BadInput
from dtlib.learn.solutions import altered, parameters

Program = Callable[..., Any]
# The key of a sentence and a program, or the words of the solution that it changes.
Pair = tuple[str, Program | Mapping[str, str]]


@dataclass(frozen=True)
class Mistake:
    """A program that errs, and where one program does not say it all, which answers are its kin.

    Parameters
    ----------
    key
        The sentence, in the lesson's `mistakes:`.
    program
        An answer with the mistake. In its place may stand the words of the solution that it
        changes, old to new: `{"- 1": ""}`.
    when
        Recognises a whole family of answers, in the smallest case that fails, if no program gives
        the same. It names what it wants to see, as all functions of an exercise do, and returns
        whether the mistake is there; a dict says so, and fills the sentence (also where the program
        was the one that matched). An answer that raised is shown only to a `when` that names
        `error`: the exception's name, "loops" for an answer that did not end, else None.
    hangs
        On ranks: the program never ends, and is not run for a student. It names `rank`, `n` or
        arguments of that rank, and says what the rank then waits in: `"all_reduce"`, or
        `("send", 2)`, `"a collective"` for any, or None where it waits for nobody. True: it may
        hang, or kill a rank, and `when` recognises it.
    """

    key: str
    program: Program | Mapping[str, str] | None = None
    when: Callable[..., bool | Mapping[str, Any]] | None = None
    hangs: Callable[..., str | tuple[str, int] | None] | Literal[True] | None = None


class Solved:
    """An exercise with its solution, and with the programs that err."""

    reference: Program
    mistakes: Sequence[Mistake | Pair]

    @property
    def name(self) -> str:
        """The exercise, by the name of its solution."""
        return self.reference.__name__

    @cached_property
    def programs(self) -> tuple[Mistake, ...]:
        """The mistakes, each with a program, also where words of the solution stand."""
        return read_mistakes(self.mistakes, self.reference)


def read_mistakes(given: Iterable[Mistake | Pair], solution: Program) -> tuple[Mistake, ...]:
    """Make a `Mistake` of each pair, and a program of words of the solution that change."""
    found = []
    for one in given:
        mistake = one if isinstance(one, Mistake) else Mistake(*one)
        if isinstance(mistake.program, Mapping):
            mistake = replace(mistake, program=altered(solution, mistake.program))
        found.append(mistake)
    return tuple(found)


def by_name(function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Call a function with those of `names` that its parameters are called after.

    So `lambda got, ranks: got == ranks` gets what came back, and the argument `ranks` of the case.
    A parameter of another name keeps its default.
    """
    return function(**{name: names[name] for name in parameters(function) if name in names})


def refuse_other_names(what: str, function: Any, known: Iterable[str], skip: int = 0) -> None:
    """Refuse a function that names something it will not be given.

    Raises
    ------
    BadInput
        With the names that it may have. The first `skip` parameters are given by place.
    """
    if function is None:
        return
    asked = list(inspect.signature(function).parameters.values())[skip:]
    odd = [p.name for p in asked if p.name not in known and p.default is p.empty]
    if odd:
        raise BadInput(f"{what} names {', '.join(odd)}; it may name {', '.join(known)}.")
