"""What both exercises in diagnosing share: how a diagnosis is read, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

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


def judge(
    got: Diagnosis, want: Diagnosis, patient: str, also: Mapping[str, Collection[int]]
) -> bool | Wrong:
    """Say what is wrong: first the kind, then the line, then the rank.

    `also` has the other lines of a patient that show the same bug.
    """
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
