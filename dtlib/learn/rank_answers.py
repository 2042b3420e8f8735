"""Check an answer that runs on several ranks, beside the lesson's own and programs that err.

    EXERCISE = RankAnswer(
        solution("total", globals()),
        cases=[(1, "4", lambda rank, n: torch.tensor(4.0)), (3, "1, 10 and 100", painted(1))],
        mistakes=[("own", lambda x: x), ("mean", {"return x": "return x / dist.get_world_size()"})],
    )

As with `Answer` a known mistake is written once, as a program. What is compared is what came back
on every rank, and the bytes that each sent.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dtlib.learn.alike import alike
from dtlib.learn.explanations import returned, unforeseen, waits_in, who_left
from dtlib.learn.mistakes import Mistake, Pair, Program, Solved, by_name, refuse_other_names
from dtlib.learn.rank_runs import Task, named, run_programs
from dtlib.learn.readers import words
from dtlib.learn.rounds import Given, Round, Seen
from dtlib.learn.solutions import parameters
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.ranks import timeouts

SAME = 1e-5  # of numbers in 32 bits, added in any order
SOON = 3.0  # seconds in which a student's answer is compared with the mistakes


@dataclass(frozen=True)
class RankAnswer(Solved):
    """An exercise whose answer is a function that every rank calls.

    Each function given below names what it wants to see. On a rank (`read`, `judge`, a mistake's
    `hangs`) that is `rank`, `n` and this rank's arguments by their names; of all ranks (`when`,
    `facts`, `waste`) it is `n`, `case`, and lists with a place for each rank: the arguments by
    their names, `got` and `want` (a number, the numbers of a small tensor, of a long one how often
    each stands in it, else what `read` returned), and `seen`, all that was seen there.

    Parameters
    ----------
    reference
        The solution: `solution("name", globals())`.
    cases
        `(ranks, words, make)` in order; `make(rank, n)` returns the argument of a rank, or a tuple
        of several. One rank first, then three, then four: on two many wrong answers are right.
    mistakes
        `(key, program)` or a `Mistake`, as for `Answer`. A `when` that does not name `got` is asked
        also where a rank failed, or returned nothing.
    run
        `run(answer, *arguments)` calls the answer on each rank where a mere call shows too little.
    read
        From what came back on a rank, its first parameter, to what is compared; raises `Wrong`
        where this is of a wrong kind.
    judge
        On each rank, whether `got` is right there; default: `seen.right`, that it is as close to
        `want` as `same`.
    same
        How close two numbers count as the same.
    wire
        From what a rank saw to what else two answers must have alike to be the same mistake.
        Default: the bytes in its messages.
    collectives
        Whether they are allowed; else only messages between two ranks.
    waste
        Returns a `Wrong` for an answer that does too much in this case, where it is right in all
        cases of one number of ranks.
    facts
        Returns more names for the sentences; asked where every rank returned something.
    other
        Key of the sentence for a wrong answer that is no known mistake.
    passed
        Returns the `Passed` of a right answer; `seen` is a list here, one place a case.
    after_pass
        Called with the student's function once it passed; what it returns is shown.
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
        """The keys that may be told, but for those that `read`, `run` and `waste` raise."""
        return {mistake.key for mistake in self.programs} | {self.other}

    @cached_property
    def _task(self) -> Task:
        return Task(self.reference, self.run, self.read, self.judge, self.same, self.collectives)

    def check(self, student: Program) -> Passed:
        """Run an answer on one rank, on three and on four, up to the first case that is wrong.

        Raises
        ------
        Wrong
            For that case, with the sentence of the known mistake that gives the same.
        """
        rounds, found = next(self._judged([student], timeouts.CHECK, SOON))
        if isinstance(found, Passed):
            return found
        # Prints are how people look into a function: those of the case that went wrong.
        for seen in rounds[-1].ranks if not rounds[-1].right else ():
            for line in seen.printed.splitlines():
                print(f"rank {seen.rank} | {line}")
        raise found

    def verdicts(self, answers: Sequence[Program], hang: bool = False) -> list[Passed | Wrong]:
        """What `check` says of each answer, with one launch for each number of ranks.

        Those of which one may `hang`, or die, need a launch each.
        """
        if hang:
            return [
                found for one in answers for _, found in self._judged([one], timeouts.KNOWN_HANG)
            ]
        return [found for _, found in self._judged(answers, timeouts.CHECK)]

    def _judged(
        self, answers: Sequence[Program], timeout: float, seconds: float | None = None
    ) -> Iterator[tuple[list[Round], Passed | Wrong]]:
        """For each answer what was seen of it, and the verdict.

        Of the mistakes no further one begins after `seconds`.
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
                    wrong[k] = self._wrong(answers[k], seen[k], seconds)
        for rounds, found in zip(seen, wrong, strict=True):
            yield rounds, found or self._passed(rounds)

    def _wrong(self, answer: Program, rounds: list[Round], seconds: float | None) -> Wrong | None:
        """What is wrong in the last case that was run, or too much in one of them."""
        last = rounds[-1]
        if not last.right:
            gives = functools.partial(self._alike, answer, len(rounds) - 1, last, seconds)
            return self._filled(last, self._mistake(last, gives))
        for round_ in rounds:
            wrong = self.waste and by_name(self.waste, self._names(round_))
            if wrong:
                return self._filled(round_, wrong)
        return None

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
        """The mistakes that give the same in case `i`; first who does so in the next cases, too."""
        given = self._gives(i, seconds)
        fits = [self.programs[k] for k, one in given.items() if self._same(round_, one)]
        rest = [Given._make(case) for case in self.cases[i + 1 :]]
        if len({mistake.key for mistake in fits}) < 2 or not rest:
            return fits
        programs: list[Any] = [*(mistake.program for mistake in fits), answer]
        cases = [case for case in rest if case.n == rest[0].n]
        *known, own = run_programs(self._task, programs, cases, timeouts.CHECK, to_the_end=True)
        agree = [sum(map(self._same, own, rounds)) for rounds in known]
        return [fits[k] for k in sorted(range(len(fits)), key=lambda k: -agree[k])]

    def _gives(self, i: int, seconds: float | None) -> dict[int, Round]:
        """What the mistakes that return give in case `i`, by their places; kept once all ran."""
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
        """Whether two programs gave the same on every rank, and sent as much."""
        for one, two in zip(a.ranks, b.ranks, strict=True):
            if not returned(two) or not alike(one.got, two.got, self.same):
                return False
            if not alike(self.wire(one), self.wire(two)):
                return False
        return True

    def _hangs(self, mistake: Mistake, round_: Round) -> bool:
        """Whether every rank waits, or does not, as in a mistake that hangs."""
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
        """What a function that looks at all ranks may see."""
        n, ranks = round_.n, range(round_.n)
        each = [named(self._task, round_.case.arguments(rank), rank, n) for rank in ranks]
        names: dict[str, Any] = {name: [one[name] for one in each] for name in each[0]}
        got = [seen.got for seen in round_.ranks]
        want = [s.want[0] if len(s.want) == 1 else s.want or s.goal for s in round_.ranks]
        label = round_.case.label
        return {**names, "n": n, "case": label, "got": got, "want": want, "seen": round_.ranks}

    def _filled(self, round_: Round, wrong: Wrong) -> Wrong:
        """With its case, and all names that its sentence may have."""
        names = self._names(round_)
        wrong.case = wrong.case or round_.label
        bad = next((s.rank for s in round_.ranks if not s.right), 0)
        numbers = {"n": round_.n, "rank": bad, "got": words(names["got"]), **who_left(round_)}
        if self.facts is not None and all(returned(seen) for seen in round_.ranks):
            numbers |= by_name(self.facts, names)
        wrong.numbers = numbers | wrong.numbers
        return wrong
