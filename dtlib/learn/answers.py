"""Check an answer by running it beside the lesson's own and beside programs that err.

    EXERCISE = Answer(
        solution("double", globals()),
        cases=[("x = 1", (1,)), ("x = 3", (3,))],
        mistakes=[("same", {"2 * x": "x"}), ("squared", lambda x: x * x)],
    )

A known mistake is written once, as a program. Where an answer differs from the solution, the
program that gives the same names the sentence, and the tests run all of them.
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
from dtlib.learn.alike import SAME, Stopped, alike
from dtlib.learn.calls import ask
from dtlib.learn.mistakes import Mistake, Pair, Program, Solved, by_name, refuse_other_names
from dtlib.learn.readers import number, words
from dtlib.learn.solutions import parameters
from dtlib.learn.verdicts import NotJudged, Passed, Wrong

# A case: what a sentence calls it, and the arguments, or a function that makes them anew; and
# where wanted the key of the sentence for an answer that is wrong there, like no known mistake.
Case = tuple[Any, ...]
ENDED = ("raised", "unknown_name", "loops")  # what `ask` says of an answer that stopped


@dataclass(frozen=True)
class Answer(Solved):
    """An exercise whose answer is a function that one process can run.

    Each function given below names what it wants to see, and is handed that: any argument of the
    case by its name, `got` and `want` (what the answer and the solution gave, as `read` returned
    it) and `case` (its words).

    Parameters
    ----------
    reference
        The solution: `solution("name", globals())`.
    cases
        `(words, arguments)`, the plainest first, each with one thing more. A third element is the
        key of the sentence for an answer that is wrong in this case and no known mistake. Arguments
        that cannot be copied are given as a function that makes the tuple.
    mistakes
        `(key, program)` or a `Mistake`, in the order in which they are looked at. A program may be
        the words of the solution that change, as a dict.
    read
        From what came back, its first parameter, to what is compared; it raises `Wrong` when this
        is of a wrong kind. Default: a number.
    run
        `run(answer, *arguments)` calls the answer where a mere call would not show enough; what it
        returns goes to `read`, which then does nothing by default.
    same
        How close two numbers count as the same (relative), or a function of two outcomes.
    judge
        For tasks without one right output: returns whether the answer is right in this case, or
        the `Wrong` that says why not.
    alone
        Whether `read`, `run` and `judge` say all there is to say: what they let through is right,
        and the solution is not run beside the answer. For cases that take long; `want` is None.
    facts
        Returns more names for the sentences. They have the arguments, `got` and `want` anyhow.
    other
        Key of the sentence for a wrong answer that is no known mistake.
    changed
        Key of the sentence for an answer that changed its arguments; by default it may.
    passed
        Returns the `Passed` of a right answer; `got` and `want` are lists here, one place a case.
    after_pass
        Called with the student's function once it passed; what it returns is shown.
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
            raise BadInput(f"{self.name} is judged alone, by neither `read`, `run` nor `judge`.")
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
        """What the arguments of a case are called."""
        return parameters(self.run)[1:] if self.run else parameters(self.reference)

    def check(self, student: Program) -> Passed:
        """Run an answer in one case after the other, up to the first that is wrong.

        Raises
        ------
        Wrong
            For that case, with the sentence of the known mistake that gives the same.
        NotJudged
            When the solution itself was not done in time.
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
        """The keys that may be told, but for those that `read`, `run` and `judge` raise."""
        own = {mistake.key for mistake in self.programs} | {self.other}
        own |= {case[2] for case in self.cases if len(case) > 2}
        return own | ({self.changed} if self.changed else set())

    def _wanted(self, i: int) -> Any:
        """What the solution gives; if that too was late, any late answer would be right."""
        want = self._try(self.reference, i)
        if isinstance(want, Stopped) and want.error == "loops":
            raise NotJudged(
                f"the course's own solution of {self.name} was not done in time either"
                f" ({self.cases[i][0]}): this machine is busy; end other programs and check again."
            )
        return want

    def _try(self, program: Program, i: int) -> Any:
        """What a program gives in case `i`: as `read` has it, a `Wrong` of `read`, or `Stopped`."""
        label, given = self.cases[i][:2]
        arguments = tuple(given() if callable(given) else copy.deepcopy(given))
        try:
            if self.run is not None:
                value = ask(self.run, program, *arguments, case=label)
            else:
                value = self._call(program, arguments, label)
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
        told = alike(before, arguments)  # else something in them cannot be compared
        value = ask(program, *arguments, case=label)
        if self.changed and told and not alike(before, arguments, 0):
            raise Wrong(self.changed)
        return value

    def _verdict(self, student: Program, got: list[Any], want: Any) -> Wrong | None:
        """Judge the case that was run last."""
        i = len(got) - 1
        if isinstance(got[i], Wrong):
            return got[i]
        if self.judge is not None and not isinstance(got[i], Stopped):
            found = by_name(self.judge, self._seen(i, got[i], want))
            if isinstance(found, Wrong) or found:
                return found if isinstance(found, Wrong) else None
        elif self._alike(got[i], want) or (self.alone and not isinstance(got[i], Stopped)):
            return None
        return self._known_mistake(student, got, want) or self._unknown(i, got[i])

    def _known_mistake(self, student: Program, got: list[Any], want: Any) -> Wrong | None:
        """The mistake whose program gives the same here, and elsewhere most often."""
        i = len(got) - 1
        runs = [k for k, mistake in enumerate(self.programs) if mistake.program is not None]
        fits = [k for k in runs if self._alike(got[i], self._gives(k, i))]
        if len(fits) > 1:
            more = [*got, *self._rest(student, i + 1)]
            fits.sort(key=lambda k: -self._agreement(k, more))  # stable: then the first of the list
        first = [self.programs[k] for k in fits[:1]]
        for mistake in first or self.programs:
            told = self._holds(mistake, i, got[i], want)
            if first or told or isinstance(told, Mapping):
                return Wrong(mistake.key, **(told if isinstance(told, Mapping) else {}))
        return None

    def _holds(self, mistake: Mistake, i: int, got: Any, want: Any) -> bool | Mapping[str, Any]:
        """What a mistake's `when` says of a case; of an error only one that names it is asked."""
        seen = self._seen(i, got, want) | {"error": None}
        if isinstance(got, Stopped):
            seen |= {"got": None, "error": got.error}
        when = mistake.when
        if when is None or (isinstance(got, Stopped) and "error" not in parameters(when)):
            return False
        told: bool | Mapping[str, Any] = by_name(when, seen)
        return told

    def _unknown(self, i: int, got: Any) -> Wrong:
        if isinstance(got, Stopped):
            return got.wrong
        key = self.cases[i][2] if len(self.cases[i]) > 2 else self.other
        return Wrong(key)

    def _rest(self, student: Program, start: int) -> list[Any]:
        """What the answer gives in the cases behind the one that failed; nobody sees its prints."""
        found: list[Any] = []
        with contextlib.redirect_stdout(io.StringIO()):
            for i in range(start, len(self.cases)):
                found.append(self._try(student, i))
                if isinstance(found[-1], Stopped):  # perhaps by its time: once is enough
                    break
        return found

    def _agreement(self, k: int, got: Sequence[Any]) -> int:
        return sum(self._alike(one, self._gives(k, i)) for i, one in enumerate(got))

    def _gives(self, k: int, i: int) -> Any:
        """What mistake `k` gives in case `i`, kept once it was run."""
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
        """The arguments by their names, with those that a case leaves out."""
        first = (None,) if self.run else ()  # the answer itself
        bound = inspect.signature(self.run or self.reference).bind(*first, *arguments)
        bound.apply_defaults()
        return {name: bound.arguments[name] for name in self._names}

    def _facts(self, i: int, got: Any, want: Any) -> dict[str, Any]:
        seen = self._seen(i, got, want)
        own = {"seen": words(got), **seen, "got": words(got), "want": words(want)}
        if self.facts is None or isinstance(got, (Wrong, Stopped)):
            return own
        return {**own, **by_name(self.facts, seen)}
