"""A known mistake: the key of its sentence, and a program that makes it, written once.

The check recognises an answer that gives the same result as this program, and the tests run the
same program: the check must refuse it with the mistake's own sentence.
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
# The key of a sentence, and a program or the solution's text that it changes.
Pair = tuple[str, Program | Mapping[str, str]]


@dataclass(frozen=True)
class Mistake:
    """A program that makes a mistake and, if one is not enough, a test for similar answers.

    Parameters
    ----------
    key
        Key of the sentence in the lesson's `mistakes:`.
    program
        An answer with the mistake, or the solution's text that it changes, old to new:
        `{"- 1": ""}`.
    when
        Recognises a whole family of answers, in the smallest case that fails, if no program gives
        the same result. Its parameters name what it wants to see, as in all functions of an
        exercise. It returns whether the mistake is there; a dict means yes and fills the sentence
        (also if it was the program that matched). An answer that raised is shown only to a `when`
        with the parameter `error`: the exception's name, "loops" for an answer that did not end,
        otherwise None.
    hangs
        On ranks: the program never ends, and is not run for a student. This function has the
        parameters `rank`, `n` or arguments of that rank, and returns what the rank then waits in:
        `"all_reduce"`, or `("send", 2)`, `"a collective"` for any, or None if it waits for nobody.
        True: the program may hang, or kill a rank, and `when` recognises it.
    """

    key: str
    program: Program | Mapping[str, str] | None = None
    when: Callable[..., bool | Mapping[str, Any]] | None = None
    hangs: Callable[..., str | tuple[str, int] | None] | Literal[True] | None = None


class Solved:
    """An exercise with its solution and its known mistakes."""

    reference: Program
    mistakes: Sequence[Mistake | Pair]

    @property
    def name(self) -> str:
        """The exercise's name, which is that of its solution."""
        return self.reference.__name__

    @cached_property
    def programs(self) -> tuple[Mistake, ...]:
        """The mistakes, with a program made for each that only lists changed text."""
        return read_mistakes(self.mistakes, self.reference)


def read_mistakes(given: Iterable[Mistake | Pair], solution: Program) -> tuple[Mistake, ...]:
    """Turn each pair into a `Mistake`, and changes to the solution's text into a program."""
    found = []
    for one in given:
        mistake = one if isinstance(one, Mistake) else Mistake(*one)
        if isinstance(mistake.program, Mapping):
            mistake = replace(mistake, program=altered(solution, mistake.program))
        found.append(mistake)
    return tuple(found)


def by_name(function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Call a function with those of `names` that are names of its parameters.

    So `lambda got, ranks: got == ranks` gets the returned value and the case's argument `ranks`.
    A parameter of another name keeps its default.
    """
    return function(**{name: names[name] for name in parameters(function) if name in names})


def refuse_other_names(what: str, function: Any, known: Iterable[str], skip: int = 0) -> None:
    """Refuse a function with a parameter that it will not be given.

    Raises
    ------
    BadInput
        With the names that are allowed. The first `skip` parameters are passed by position.
    """
    if function is None:
        return
    asked = list(inspect.signature(function).parameters.values())[skip:]
    odd = [p.name for p in asked if p.name not in known and p.default is p.empty]
    if odd:
        raise BadInput(f"{what} asks for {', '.join(odd)}; it may ask for {', '.join(known)}.")
