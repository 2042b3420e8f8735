"""What a lesson's real check says of each mutant.

The mutants of an exercise run in a process of their own, which is ended, with all that it started,
when it says nothing for too long; a new one goes on behind the mutant that was at work. Those on
ranks run many to a launch, as the banks do.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import banks

from dtlib.learn import ladder, source
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.verdicts import COMMON, NotJudged, Passed, Stub, Verdict, Wrong
from mutation.mutants import Mutant, mutants_of

BATCH = 12  # mutants in a launch of ranks
WAIT = 1.5  # seconds that a rank waits for another before that is called a hang
QUIET = 60.0  # seconds in which a mutant in one process is judged, or it is lost
QUIET_ON_RANKS = 420.0  # the same for a batch
DOUBTFUL = ("waits", "died", "loops")  # what a busy machine may show of a right answer, too


@dataclass(frozen=True)
class Finding:
    """A mutant and its verdict: "passed", "stub", "lost" or the key of a sentence."""

    mutant: Mutant
    key: str

    @property
    def survived(self) -> bool:
        return self.key == "passed"


def try_exercise(number: str, exercise: str, most: int | None = None) -> list[Finding]:
    """The verdict on every mutant of an exercise, or on the first `most` of them."""
    lesson = source.find(number)
    check = ladder.find_exercise(lesson, exercise)
    mutants = mutants_of(lesson, check)[:most]
    quiet = QUIET_ON_RANKS if isinstance(check, RankAnswer) else QUIET
    keys: list[str] = []
    while len(keys) < len(mutants):
        before = len(keys)
        for place, key in _lines(number, exercise, before, len(mutants), quiet):
            assert place == len(keys)
            keys.append(key)
        if len(keys) < len(mutants) and (len(keys) == before or quiet == QUIET):
            keys.append("lost")
    return [Finding(*pair) for pair in zip(mutants, keys, strict=True)]


def _lines(
    number: str, exercise: str, first: int, end: int, quiet: float
) -> Iterator[tuple[int, str]]:
    """Start a process that judges mutants from the first on; yield what it says while it does."""
    command = [sys.executable, str(Path(__file__).parent), "--worker", number, exercise]
    process = subprocess.Popen(
        [*command, str(first), str(end)],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        os.set_blocking(process.stdout.fileno(), False)
        rest, last = b"", time.monotonic()
        while time.monotonic() < last + quiet:
            select.select([process.stdout], [], [], 1.0)
            got = process.stdout.read()
            if got == b"":
                return
            *lines, rest = (rest + (got or b"")).split(b"\n")
            for line in lines:
                last = time.monotonic()
                place, key = json.loads(line)
                yield place, key
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def work(number: str, exercise: str, first: int, end: int) -> None:
    """Judge mutants and write place and key of each, a line of JSON; nothing else is written."""
    out = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    lesson = source.find(number)
    check: Any = ladder.find_exercise(lesson, exercise)
    mutants = mutants_of(lesson, check)[first:end]
    programs = [mutant.program(check.reference) for mutant in mutants]
    judged = _on_ranks if isinstance(check, RankAnswer) else _here
    for place, verdict in enumerate(judged(lesson, exercise, check, programs), start=first):
        out.write(json.dumps([place, key_of(verdict)]) + "\n")
        out.flush()


def _here(
    lesson: source.Lesson, exercise: str, check: Any, programs: list[Callable[..., Any]]
) -> Iterator[Verdict]:
    for program in programs:
        try:
            yield ladder.judge(lesson, exercise, check, program)
        except NotJudged:
            yield Wrong("not_judged")


def _on_ranks(
    lesson: source.Lesson, exercise: str, check: Any, programs: list[Callable[..., Any]]
) -> Iterator[Verdict]:
    """As `Bank.verdicts`, some at a time."""
    import cloudpickle

    for module in banks.MODULES:
        if module.__name__.startswith(lesson.stem):
            cloudpickle.register_pickle_by_value(module)
    for start in range(0, len(programs), BATCH):
        batch = programs[start : start + BATCH]
        told = [ladder.unwritten(lesson, exercise, program) for program in batch]
        runs = [program for program, verdict in zip(batch, told, strict=True) if verdict is None]
        found = iter(_judged(check, runs))
        yield from [verdict or next(found) for verdict in told]


def _judged(check: Any, programs: list[Callable[..., Any]]) -> list[Verdict]:
    """All in one launch, the solution last; whom a busy machine may have wronged, once more alone.

    Those are all where the solution is refused, too, else those of which ranks waited or ended.
    """
    if not programs:
        return []
    *found, control = (v for _, v in check._judged([*programs, check.reference], WAIT))
    for k, verdict in enumerate(found):
        doubtful = isinstance(verdict, Wrong) and verdict.mistake in DOUBTFUL
        if doubtful or not isinstance(control, Passed):
            [found[k]] = check.verdicts([programs[k]])
    return found


def key_of(verdict: Verdict) -> str:
    """A verdict in a word."""
    if isinstance(verdict, Wrong):
        return verdict.mistake
    return {Passed: "passed", Stub: "stub"}[type(verdict)]


def is_fallback(key: str, check: Any) -> bool:
    """Whether a sentence is one of those that any exercise, or any wrong answer of it, may get."""
    return key in COMMON or key in (check.other, "lost", "not_judged", "stub")
