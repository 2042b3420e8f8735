"""Check an answer by comparing it with the lesson's solution and with known wrong programs.

    EXERCISE = Answer(
        solution("double", globals()),
        cases=[("x = 1", (1,)), ("x = 3", (3,))],
        mistakes=[("same", {"2 * x": "x"}), ("squared", lambda x: x * x)],
    )

A known mistake is written once, as a program. If an answer differs from the solution, the program
that gives the same result selects the sentence. The tests run all of these programs.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dtlib.errors import BadInput
from dtlib.learn.alike import SAME, Stopped, alike, rounded
from dtlib.learn.calls import ask
from dtlib.learn.mistakes import Mistake, Pair, Program, Solved, by_name, refuse_other_names
from dtlib.learn.readers import number, plain, told_apart
from dtlib.learn.solutions import parameters
from dtlib.learn.verdicts import NotJudged, Passed, Wrong

# A case: its name in a sentence, then its arguments or a function that makes them anew, then
# optionally the key of the sentence for an answer that is wrong there but is no known mistake.
Case = tuple[Any, ...]
ENDED = ("raised", "unknown_name", "loops")  # what `ask` says of an answer that stopped


@dataclass(frozen=True)
class Answer(Solved):
    """An exercise whose answer is a function that one process can run.

    Each function below receives the values that its parameters name: any argument of the case,
    `got` and `want` (what the answer and the solution gave, as `read` returned it) and `case`, its
    name.

    Parameters
    ----------
    reference
        The solution: `solution("name", globals())`.
    cases
        `(name, arguments)`, the simplest first, each adding one complication. An optional third
        element is the key of the sentence for an answer that is wrong in this case but is no known
        mistake. Arguments that cannot be copied are given as a function that makes the tuple.
    mistakes
        `(key, program)` or a `Mistake`, in the order in which they are tried. A program may also
        be a dict of the solution's text that changes, old to new.
    read
        Turns the returned value, its first parameter, into what is compared; it raises `Wrong` if
        the value is of the wrong kind. By default it reads a number.
    run
        `run(answer, *arguments)` calls the answer where a plain call would not show enough; its
        result goes to `read`, which then does nothing by default.
    same
        The relative difference up to which two numbers count as equal, or a function that compares
        two outcomes.
    judge
        For tasks without one right output: returns whether the answer is right in this case, or
        the `Wrong` that says why not.
    alone
        Whether `read`, `run` and `judge` decide alone: what they accept is right, and the solution
        is not run. This is for slow cases; `want` is then None.
    facts
        Returns more names for the sentences, which already have the arguments, `got` and `want`.
    other
        Key of the sentence for a wrong answer that is no known mistake.
    changed
        Key of the sentence for an answer that changed its arguments; by default that is allowed.
    passed
        Returns the `Passed` of a right answer; here `got` and `want` are lists, one entry per case.
    after_pass
        Called with the student's function once it has passed; its result is shown.
    """

    reference: Program
    cases: Sequence[Case]
    mistakes: Sequence[Mistake | Pair] = ()
    read: Callable[..., Any] | None = None
    run: Callable[..., Any] | None = None
    same: float | Callable[[Any, Any], bool] = SAME
    judge: Callable[..., bool | Wrong] | None = None
    alone: bool = False
    facts: Callable[..., Mapping[str, Any]] | None = None
    other: str = "other"
    changed: str | None = None
    passed: Callable[..., Passed] | None = None
    after_pass: Callable[[Program], Any] | None = None
    _known: dict[tuple[int, int], Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.alone and self.read is None and self.judge is None and self.run is None:
            raise BadInput(f"{self.name} has `alone`, but no `read`, `run` or `judge` to decide.")
        known = (*self._names, "got", "want", "case")
        refuse_other_names(f"passed of {self.name}", self.passed, ("got", "want"))
        refuse_other_names(f"judge of {self.name}", self.judge, known)
        refuse_other_names(f"facts of {self.name}", self.facts, known)
        refuse_other_names(f"read of {self.name}", self.read, (*self._names, "case"), skip=1)
        for mistake in self.programs:
            what = f"when of {self.name}, {mistake.key}"
            refuse_other_names(what, mistake.when, (*known, "error"))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The names of a case's arguments."""
        return parameters(self.run)[1:] if self.run else parameters(self.reference)

    def check(self, student: Program) -> Passed:
        """Run an answer on one case after another, up to the first that is wrong.

        Raises
        ------
        Wrong
            For that case, with the sentence of the known mistake that gives the same result.
        NotJudged
            When the solution itself did not finish in time.
        """
        got, want = [], []
        for i in range(len(self.cases)):
            got.append(self._try(student, i))
            want.append(None if self.alone else self._wanted(i))
            wrong = self._verdict(student, got, want[i])
            if wrong is not None:
                wrong.case = wrong.case or self.cases[i][0]
                wrong.numbers = self._facts(i, got[i], want[i]) | wrong.numbers
                raise wrong
        if self.passed is None:
            return Passed((("cases", len(got), len(self.cases), "right"),))
        return by_name(self.passed, {"got": got, "want": want})

    @property
    def keys(self) -> set[str]:
        """The keys that a verdict may have, except those that `read`, `run` and `judge` raise."""
        own = {mistake.key for mistake in self.programs} | {self.other}
        own |= {case[2] for case in self.cases if len(case) > 2}
        return own | ({self.changed} if self.changed else set())

    def _wanted(self, i: int) -> Any:
        """What the solution gives; if it ran out of time too, every slow answer would be right."""
        want = self._try(self.reference, i)
        if isinstance(want, Stopped) and want.error == "loops":
            raise NotJudged(
                f"the course's own solution of {self.name} did not finish in time either"
                f" ({self.cases[i][0]}): this machine is busy; close other programs and try again."
            )
        return want

    def _try(self, program: Program, i: int) -> Any:
        """What a program gives in case `i`: what `read` returns, its `Wrong`, or `Stopped`."""
        label, given = self.cases[i][:2]
        arguments = tuple(given() if callable(given) else copy.deepcopy(given))
        try:
            if self.run is not None:
                value = ask(self.run, program, *arguments, case=label)
            else:
                value = plain(self._call(program, arguments, label))
            if self.read is None:
                return value if self.run else number(value)
            names = self._named(arguments) | {"case": label}
            wanted = {name: names[name] for name in parameters(self.read)[1:] if name in names}
            return self.read(value, **wanted)
        except Wrong as wrong:
            if wrong.mistake in ENDED:
                return Stopped(wrong.numbers.get("error", wrong.mistake), wrong)
            return wrong

    def _call(self, program: Program, arguments: tuple[Any, ...], label: str) -> Any:
        before = copy.deepcopy(arguments) if self.changed else arguments
        told = alike(before, arguments)  # otherwise something in them cannot be compared
        value = ask(program, *arguments, case=label)
        if self.changed and told and not alike(before, arguments, 0):
            raise Wrong(self.changed)
        return value

    def _verdict(self, student: Program, got: list[Any], want: Any) -> Wrong | None:
        """Judge the case that was run last."""
        i = len(got) - 1
        if isinstance(got[i], Wrong):
            return got[i]
        if self._always_none(student, got, want):
            return Wrong("none")
        if self.judge is not None and not isinstance(got[i], Stopped):
            found = by_name(self.judge, self._seen(i, got[i], want))
            if isinstance(found, Wrong) or found:
                return found if isinstance(found, Wrong) else None
        elif self._alike(got[i], want) or (self.alone and not isinstance(got[i], Stopped)):
            return None
        return self._known_mistake(student, got, want) or self._unknown(student, got, want)

    def _known_mistake(self, student: Program, got: list[Any], want: Any) -> Wrong | None:
        """The mistake whose program gives the same here, and most often elsewhere, or rounding."""
        i = len(got) - 1
        runs = [k for k, mistake in enumerate(self.programs) if mistake.program is not None]
        fits = [k for k in runs if self._alike(got[i], self._gives(k, i))]
        less = self._rounding(student, i, got[i], want)
        if less or len(fits) > 1:
            more = [*got, *self._rest(student, i + 1)]
            fits.sort(key=lambda k: -self._agreement(k, more))  # stable: of equals, the first
            if less and fits and self._agreement(fits[0], more) < len(more):
                fits = []  # it gives the same by chance
        first = [self.programs[k] for k in fits[:1]]
        for mistake in first or self.programs:
            told = self._holds(mistake, i, got[i], want)
            if first or told or isinstance(told, Mapping):
                return Wrong(mistake.key, **(told if isinstance(told, Mapping) else {}))
        return less

    def _holds(self, mistake: Mistake, i: int, got: Any, want: Any) -> bool | Mapping[str, Any]:
        """What a mistake's `when` says of a case; after an error, only if it has `error`."""
        seen = self._seen(i, got, want) | {"error": None}
        if isinstance(got, Stopped):
            seen |= {"got": None, "error": got.error}
        when = mistake.when
        if when is None or (isinstance(got, Stopped) and "error" not in parameters(when)):
            return False
        told: bool | Mapping[str, Any] = by_name(when, seen)
        return told

    def _unknown(self, student: Program, got: list[Any], want: Any) -> Wrong:
        i = len(got) - 1
        if isinstance(got[i], Stopped):
            wrong: Wrong = got[i].wrong
            return wrong
        key = self.cases[i][2] if len(self.cases[i]) > 2 else self.other
        return Wrong(key)

    def _always_none(self, student: Program, got: list[Any], want: Any) -> bool:
        """Whether the answer returns None in this case and all others; in some that is right."""
        if self.judge is not None or want is None or any(one is not None for one in got):
            return False
        return all(one is None for one in self._rest(student, len(got)))

    def _rounding(self, student: Program, i: int, got: Any, want: Any) -> Wrong | None:
        """The verdict, if from case `i` on all is right but for rounding, and not only to 0."""
        pair = None if self.judge is not None else rounded(got, want, zero=True)
        if pair is None:
            return None
        wants = (self._wanted(k) for k in range(i + 1, len(self.cases)))
        found = [(got, want), *zip(self._rest(student, i + 1), wants, strict=False)]
        if not all(self._alike(a, b) or rounded(a, b, zero=True) for a, b in found):
            return None
        mine, right = told_apart(*pair)
        left = any(rounded(a, b) for a, b in found)
        return Wrong("rounded", got=mine, want=right) if left else None

    def _rest(self, student: Program, start: int) -> list[Any]:
        """What the answer gives in the cases after the one that failed; its prints are hidden."""
        found: list[Any] = []
        with contextlib.redirect_stdout(io.StringIO()):
            for i in range(start, len(self.cases)):
                found.append(self._try(student, i))
                if isinstance(found[-1], Stopped):  # perhaps out of time: once is enough
                    break
        return found

    def _agreement(self, k: int, got: Sequence[Any]) -> int:
        return sum(self._alike(one, self._gives(k, i)) for i, one in enumerate(got))

    def _gives(self, k: int, i: int) -> Any:
        """What mistake `k` gives in case `i`, cached after its first run."""
        if (k, i) not in self._known:
            with contextlib.redirect_stdout(io.StringIO()):
                self._known[k, i] = self._try(self.programs[k].program, i)  # type: ignore[arg-type]
        return self._known[k, i]

    def _alike(self, a: Any, b: Any) -> bool:
        if callable(self.same) and not isinstance(a, (Wrong, Stopped)):
            return not isinstance(b, (Wrong, Stopped)) and self.same(a, b)
        return alike(a, b, self.same if isinstance(self.same, float) else SAME)

    def _seen(self, i: int, got: Any, want: Any) -> dict[str, Any]:
        label, given = self.cases[i][:2]
        arguments = given() if callable(given) else given
        return {**self._named(arguments), "got": got, "want": want, "case": label}

    def _named(self, arguments: Sequence[Any]) -> dict[str, Any]:
        """The arguments by name, with the defaults of those that a case leaves out."""
        first = (None,) if self.run else ()  # the answer itself
        bound = inspect.signature(self.run or self.reference).bind(*first, *arguments)
        bound.apply_defaults()
        return {name: bound.arguments[name] for name in self._names}

    def _facts(self, i: int, got: Any, want: Any) -> dict[str, Any]:
        seen = self._seen(i, got, want)
        mine, right = told_apart(got, want)
        own = {"seen": mine, **seen, "got": mine, "want": right}
        if self.facts is None or isinstance(got, (Wrong, Stopped)):
            return own
        return {**own, **by_name(self.facts, seen)}
