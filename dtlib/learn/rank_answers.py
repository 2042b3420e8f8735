"""Check an answer that runs on several ranks against the solution and known wrong programs.

    EXERCISE = RankAnswer(
        solution("total", globals()),
        cases=[(1, "4", lambda rank, n: torch.tensor(4.0)), (3, "1, 10 and 100", painted(1))],
        mistakes=[("own", lambda x: x), ("mean", {"return x": "return x / dist.get_world_size()"})],
    )

As with `Answer`, a known mistake is written once, as a program. The check compares what every rank
returned and the bytes that it sent.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dtlib.errors import BadInput
from dtlib.learn.alike import alike
from dtlib.learn.explanations import returned, unforeseen, waits_in, who_left
from dtlib.learn.mistakes import Mistake, Pair, Program, Solved, by_name, refuse_other_names
from dtlib.learn.rank_runs import Task, named, run_programs
from dtlib.learn.readers import words
from dtlib.learn.rounds import Given, Round, Seen
from dtlib.learn.solutions import parameters
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.ranks import timeouts

SAME = 1e-5  # of 32-bit numbers, added in any order
SOON = 5.0  # seconds, in each of two launches, after which no further mistake is tried


@dataclass(frozen=True)
class RankAnswer(Solved):
    """An exercise whose answer is a function that every rank calls.

    Each function below receives the values that its parameters name. On one rank (`read`, `judge`,
    a mistake's `hangs`) these are `rank`, `n` and this rank's arguments by name. For all ranks
    (`when`, `facts`, `waste`) these are `n`, `case`, and lists with one entry per rank: the
    arguments by name, `got` and `want` (a number, the numbers of a small tensor, how often each
    number occurs in a large one, otherwise what `read` returned), and `seen`, all that was noted.

    Parameters
    ----------
    reference
        The solution: `solution("name", globals())`.
    cases
        `(ranks, name, make)` in order; `make(rank, n)` returns a rank's argument, or a tuple of
        several. Use one rank first, then three, then four: on two, many wrong answers are right.
    mistakes
        `(key, program)` or a `Mistake`, as for `Answer`. A `when` without the parameter `got` is
        also called if a rank failed or returned nothing.
    run
        `run(answer, *arguments)` calls the answer on each rank where a plain call shows too little.
    read
        Turns what a rank returned, its first parameter, into what is compared; raises `Wrong` if
        the value is of the wrong kind.
    judge
        Tells on each rank whether `got` is right there; by default `seen.right`, whether it is as
        close to `want` as `same` demands.
    same
        How close two numbers must be to count as equal.
    wire
        Maps what a rank saw to what else must be alike for two answers to be the same mistake.
        Default: the bytes in its messages.
    collectives
        Whether collectives are allowed; otherwise only messages between two ranks are.
    waste
        Returns a `Wrong` for an answer that does too much in this case; called once the answer is
        right in all cases of one number of ranks.
    facts
        Returns more names for the sentences; called if every rank returned something.
    other
        Key of the sentence for an unknown mistake in objects; numbers and tensors use `value`.
    passed
        Returns the `Passed` of a right answer; here `seen` is a list, one entry per case.
    after_pass
        Called with the student's function once it has passed; its result is shown.
    """

    reference: Program
    cases: Sequence[tuple[int, str, Callable[[int, int], Any]]]
    mistakes: Sequence[Mistake | Pair] = ()
    run: Callable[..., Any] | None = None
    read: Callable[..., Any] | None = None
    judge: Callable[..., bool] | None = None
    same: float = SAME
    wire: Callable[[Seen], Any] = lambda seen: seen.bytes_sent
    collectives: bool = True
    waste: Callable[..., Wrong | None] | None = None
    facts: Callable[..., Mapping[str, Any]] | None = None
    other: str = "value"
    passed: Callable[..., Passed] | None = None
    after_pass: Callable[[Program], Any] | None = None
    _known: dict[int, dict[int, Round]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        own = tuple(named(self._task, [None] * 20, 0, 1))  # the arguments, rank and n
        of_all = (*own, "got", "want", "case", "seen")
        refuse_other_names(f"passed of {self.name}", self.passed, ("seen",))
        refuse_other_names(f"read of {self.name}", self.read, own, skip=1)
        refuse_other_names(f"judge of {self.name}", self.judge, (*own, "got", "want", "seen"))
        for what, function in (("facts", self.facts), ("waste", self.waste)):
            refuse_other_names(f"{what} of {self.name}", function, of_all)
        for mistake in self.programs:
            refuse_other_names(f"when of {self.name}, {mistake.key}", mistake.when, of_all)
            if callable(mistake.hangs):
                refuse_other_names(f"hangs of {self.name}, {mistake.key}", mistake.hangs, own)

    @property
    def keys(self) -> set[str]:
        """The keys that a verdict may have, except those that `read`, `run` and `waste` raise."""
        return {mistake.key for mistake in self.programs} | {self.other}

    @cached_property
    def _task(self) -> Task:
        return Task(self.reference, self.run, self.read, self.judge, self.same, self.collectives)

    def check(self, student: Program) -> Passed:
        """Run an answer on one rank, on three and on four, up to the first case that is wrong.

        Raises
        ------
        Wrong
            For that case, with the sentence of the known mistake that gives the same result.
        """
        rounds, found = next(self._judged([student], timeouts.CHECK, SOON))
        if isinstance(found, Passed):
            return found
        # People debug with print, so show the prints of the case that went wrong.
        for seen in rounds[-1].ranks if not rounds[-1].right else ():
            for line in seen.printed.splitlines():
                print(f"rank {seen.rank} | {line}")
        raise found

    def verdicts(self, answers: Sequence[Program], hang: bool = False) -> list[Passed | Wrong]:
        """What `check` says of each answer, with one launch for each number of ranks.

        Answers that may `hang`, or die, need a launch each.
        """
        if hang:
            return [
                found for one in answers for _, found in self._judged([one], timeouts.KNOWN_HANG)
            ]
        return [found for _, found in self._judged(answers, timeouts.CHECK)]

    def _judged(
        self, answers: Sequence[Program], timeout: float, seconds: float | None = None
    ) -> Iterator[tuple[list[Round], Passed | Wrong]]:
        """Yield for each answer what was seen of it, and the verdict.

        A launch of known mistakes starts no further one after `seconds`.
        """
        seen: list[list[Round]] = [[] for _ in answers]
        wrong: list[Wrong | None] = [None for _ in answers]
        for _, group in itertools.groupby(map(Given._make, self.cases), lambda case: case.n):
            cases = list(group)
            left = [k for k, found in enumerate(wrong) if found is None]
            if left:
                new = run_programs(self._task, [answers[k] for k in left], cases, timeout)
                for k, rounds in zip(left, new, strict=True):
                    seen[k] += rounds
                    self._refuse_objects(rounds)
                    wrong[k] = self._wrong(answers[k], seen[k], seconds)
        for rounds, found in zip(seen, wrong, strict=True):
            yield rounds, found or self._passed(rounds)

    def _wrong(self, answer: Program, rounds: list[Round], seconds: float | None) -> Wrong | None:
        """What is wrong in the last case that was run, or wasteful in any of them."""
        last = rounds[-1]
        if not last.right:
            gives = functools.partial(self._alike, answer, len(rounds) - 1, last, seconds)
            return self._filled(last, self._mistake(last, gives))
        for round_ in rounds:
            wrong = self.waste and by_name(self.waste, self._names(round_))
            if wrong:
                return self._filled(round_, wrong)
        return None

    def _refuse_objects(self, rounds: list[Round]) -> None:
        kinds = sorted({s.want_kind for r in rounds for s in r.ranks} - {"tensor", "number", ""})
        if kinds and self.other == "value":
            raise BadInput(f"{self.name} compares {', '.join(kinds)}: set `other` for them.")

    def _passed(self, rounds: list[Round]) -> Passed:
        if self.passed is None:
            return Passed((("cases", len(rounds), len(self.cases), "right"),))
        passed: Passed = by_name(self.passed, {"seen": [round_.ranks for round_ in rounds]})
        return passed

    def _mistake(self, round_: Round, gives: Callable[[], list[Mistake]]) -> Wrong:
        """The known mistake that a case shows, or the general sentence."""
        for seen in round_.ranks:
            if seen.wrong is not None:
                return seen.wrong
        names, whole = self._names(round_), all(returned(seen) for seen in round_.ranks)
        found = [m for m in self.programs if self._hangs(m, round_)]
        if whole and not found:
            found = gives()
        for mistake in found[:1] or self.programs:
            when = mistake.when
            told = bool(found)
            if when is not None and (whole or "got" not in parameters(when)):
                told = by_name(when, names) or told
            if told:
                return Wrong(mistake.key, **(told if isinstance(told, Mapping) else {}))
        if whole and any(s.kind not in ("tensor", "number") for s in round_.ranks):
            return Wrong(self.other)
        return unforeseen(round_)

    def _alike(
        self, answer: Program, i: int, round_: Round, seconds: float | None
    ) -> list[Mistake]:
        """The mistakes that give the same in case `i`; first those that also do in later cases."""
        given = self._gives(i, seconds)
        fits = [self.programs[k] for k, one in given.items() if self._same(round_, one)]
        rest = [Given._make(case) for case in self.cases[i + 1 :]]
        if len({mistake.key for mistake in fits}) < 2 or not rest:
            return fits
        programs: list[Any] = [answer, *(mistake.program for mistake in fits)]
        cases = [case for case in rest if case.n == rest[0].n]
        found = run_programs(self._task, programs, cases, timeouts.CHECK, seconds, True)
        if len(found) < len(programs):  # time ran out
            return fits
        agree = [sum(map(self._same, found[0], rounds)) for rounds in found[1:]]
        return [fits[k] for k in sorted(range(len(fits)), key=lambda k: -agree[k])]

    def _gives(self, i: int, seconds: float | None) -> dict[int, Round]:
        """What the mistakes that return give in case `i`, by index; cached once all have run."""
        if i in self._known:
            return self._known[i]
        which = [k for k, m in enumerate(self.programs) if m.program and m.hangs is None]
        programs: list[Any] = [self.programs[k].program for k in which]
        case = Given._make(self.cases[i])
        found = run_programs(self._task, programs, [case], timeouts.CHECK, seconds) if which else []
        given = {k: rounds[0] for k, rounds in zip(which, found, strict=False)}
        if len(found) == len(which):
            self._known[i] = given
        return given

    def _same(self, a: Round, b: Round) -> bool:
        """Whether two programs gave the same result on every rank and sent the same amount."""
        for one, two in zip(a.ranks, b.ranks, strict=True):
            if not returned(two) or not alike(one.got, two.got, self.same):
                return False
            if not alike(self.wire(one), self.wire(two)):
                return False
        return True

    def _hangs(self, mistake: Mistake, round_: Round) -> bool:
        """Whether every rank waits, or does not, exactly as in a known mistake that hangs."""
        if mistake.hangs is True or mistake.hangs is None or not round_.failures:
            return False
        if any(failure.own or failure.mismatch for _, failure in round_.failures):
            return False
        for seen in round_.ranks:
            names = named(self._task, round_.case.arguments(seen.rank), seen.rank, round_.n)
            if not waits_in(seen, by_name(mistake.hangs, names)):
                return False
        return True

    def _names(self, round_: Round) -> dict[str, Any]:
        """The names that a function over all ranks may ask for."""
        n, ranks = round_.n, range(round_.n)
        each = [named(self._task, round_.case.arguments(rank), rank, n) for rank in ranks]
        names: dict[str, Any] = {name: [one[name] for one in each] for name in each[0]}
        got = [seen.got for seen in round_.ranks]
        want = [s.want[0] if len(s.want) == 1 else s.want or s.goal for s in round_.ranks]
        label = round_.case.label
        return {**names, "n": n, "case": label, "got": got, "want": want, "seen": round_.ranks}

    def _filled(self, round_: Round, wrong: Wrong) -> Wrong:
        """Add the case, and all names that the sentence may use."""
        names = self._names(round_)
        wrong.case = wrong.case or round_.label
        bad = next((s.rank for s in round_.ranks if not s.right), 0)
        numbers = {"n": round_.n, "rank": bad, "got": words(names["got"]), **who_left(round_)}
        if self.facts is not None and all(returned(seen) for seen in round_.ranks):
            numbers |= by_name(self.facts, names)
        wrong.numbers = numbers | wrong.numbers
        return wrong
