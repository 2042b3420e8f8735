"""What both exercises in diagnosing share: how a diagnosis is read, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from dtlib.learn.answers import Answer
from dtlib.learn.readers import shown
from dtlib.learn.verdicts import Wrong

from ..ward import program

Diagnosis = tuple[int | None, int, str]


def reader(kinds: Mapping[str, str]) -> Callable[[Any], Diagnosis]:
    """A reader of (rank or None, line, kind)."""

    def read(value: Any) -> Diagnosis:
        if value is None:
            raise Wrong("none")
        if not isinstance(value, (tuple, list)) or len(value) != 3:
            raise Wrong("form", got=shown(value))
        rank, line, kind = value
        whole = (rank is None or type(rank) is int) and type(line) is int
        if not whole:
            raise Wrong("form", got=shown(value))
        if not isinstance(kind, str) or kind not in kinds:
            raise Wrong("word", got=shown(kind), words=", ".join(kinds))
        return rank, line, kind

    return read


def exercise(
    solution: Callable[[str], Diagnosis],
    patients: Iterable[str],
    kinds: Mapping[str, str],
    also: Mapping[str, Collection[int]],
) -> Answer:
    """The exercise of diagnosing some patients; `also` has other lines that show the same bug."""

    def judge(got: Diagnosis, want: Diagnosis, patient: str) -> bool | Wrong:
        """Say what is wrong: first the kind, then the line, then the rank."""
        rank, line, kind = got
        if kind != want[2]:
            return Wrong(f"{patient}_kind", said=kind)
        if line != want[1] and line not in also.get(patient, ()):
            lines = program(patient).splitlines()
            text = lines[line - 1].strip() if 0 < line <= len(lines) else "nothing"
            return Wrong(f"{patient}_line", line=line, text=text)
        if rank != want[0]:
            return Wrong("all_alike" if want[0] is None else f"{patient}_rank", said=rank)
        return True

    return Answer(
        solution,
        cases=[(f"patient {name}", (name,)) for name in patients],
        read=reader(kinds),
        judge=judge,
        other="form",  # never said: `judge` has a sentence for everything
    )
