"""The answers that every check must refuse or accept, exercise by exercise.

An exercise brings its mistakes itself. More answers lie in the module of the same name
in the room's `bank/`, which no kernel loads: `ALSO_WRONG`, pairs of the key of a sentence and an
answer that gets it and helps no check to recognise another; `HANG`, such pairs for answers that
never end, or end their process; `ALSO_RIGHT`, answers; and where wanted `RARE`, the keys of
sentences that no answer of the bank gets, and `LADDER`, two spellings of one wrong answer, as a
student pastes them. An answer is a function, or a dict of the words of the solution that change.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from dtlib.learn import ladder, rooms, source
from dtlib.learn.mistakes import read_mistakes
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.verdicts import Passed, Stub, Verdict, Wrong

MODULES: list[ModuleType] = [
    rooms.module(lesson, f"bank.{path.stem}")
    for lesson in source.lessons()
    for path in sorted(lesson.room.glob("bank/[!_]*.py"))
]


class Row(NamedTuple):
    """An answer and the key of its sentence, which is empty where it is right.

    `known` says that the check itself knows the answer as a mistake; `hangs` that it may not come
    back, so that no other answer can run in the same processes.
    """

    key: str
    answer: Callable[..., Any]
    known: bool = False
    hangs: bool = False


@dataclass
class Bank:
    """The answers to one exercise."""

    lesson: source.Lesson
    exercise: str
    check: Any
    rows: list[Row] = field(default_factory=list)
    rare: set[str] = field(default_factory=set)
    ladder: tuple[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.lesson.number}-{self.exercise}"

    def verdicts(self) -> Iterator[tuple[Row, Verdict]]:
        """What the check says of each answer; of those on ranks as many as can be in one launch."""
        for hangs in (False, True):
            rows = [row for row in self.rows if row.hangs == hangs]
            if isinstance(self.check, RankAnswer):
                yield from self._on_ranks(rows, hangs)
                continue
            for row in rows:
                yield row, ladder.judge(self.lesson, self.exercise, self.check, row.answer)

    def _on_ranks(self, rows: list[Row], hangs: bool) -> Iterator[tuple[Row, Verdict]]:
        """As `ladder.judge` does, which has one answer at a time."""
        told = [ladder.unwritten(self.lesson, self.exercise, row.answer) for row in rows]
        runs = [row.answer for row, verdict in zip(rows, told, strict=True) if verdict is None]
        found = iter(self.check.verdicts(runs, hangs))
        for row, verdict in zip(rows, told, strict=True):
            yield row, verdict or next(found)


def banks() -> list[Bank]:
    """The banks of all exercises, by lesson."""
    found = []
    for lesson in source.lessons():
        for name in lesson.sidecar.get("mistakes") or {}:
            check = ladder.find_exercise(lesson, name)
            bank = Bank(lesson, name, check, [Row("", check.reference)])
            _add_rows(bank)
            found.append(bank)
    return found


def _add_rows(bank: Bank) -> None:
    for mistake in bank.check.programs:
        if mistake.program is not None:
            bank.rows.append(Row(mistake.key, mistake.program, True, mistake.hangs is not None))
    name = bank.check.reference.__module__.rpartition(".")[2]
    more = rooms.module(bank.lesson, f"bank.{name}")
    for given, hangs in (
        (more.ALSO_WRONG, False),
        (getattr(more, "HANG", ()), True),
        ([("", answer) for answer in more.ALSO_RIGHT], False),
    ):
        for one in read_mistakes(given, bank.check.reference):
            assert callable(one.program)
            bank.rows.append(Row(one.key, one.program, hangs=hangs))
    bank.rare = set(getattr(more, "RARE", ()))
    bank.ladder = getattr(more, "LADDER", None)


def ladders() -> dict[str, tuple[str, str, str]]:
    """Lesson → exercise and two spellings of one wrong answer."""
    return {bank.lesson.number: (bank.exercise, *bank.ladder) for bank in banks() if bank.ladder}


def verdict(number: str, exercise: str, answer: Callable[..., Any]) -> Verdict:
    """What the lesson's check says of an answer."""
    lesson = source.find(number)
    return ladder.judge(lesson, exercise, ladder.find_exercise(lesson, exercise), answer)


def named(verdict: Verdict) -> str:
    """A verdict as a report names it: the key of a sentence, "passed" or "stub"."""
    if isinstance(verdict, Wrong):
        return f"{verdict.mistake} ({verdict.case}; {verdict.numbers})"[:300]
    return {Passed: "passed", Stub: "stub"}[type(verdict)]
