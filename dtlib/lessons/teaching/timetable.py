"""Lay blocks of work and breaks along a day's clock: pure arithmetic, in minutes.

A break falls between two blocks, or between two parts of one, as close to its time as possible.
All times are multiples of five minutes, as people read a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dtlib.errors import BadInput

STEP = 5


class Part(NamedTuple):
    """Work that no break interrupts: what it is in its block, and its minutes."""

    label: str
    minutes: int


@dataclass(frozen=True)
class Block:
    """Work under one title, in parts."""

    title: str
    parts: tuple[Part, ...]

    @property
    def minutes(self) -> int:
        """How long the parts take together."""
        return sum(part.minutes for part in self.parts)


class Break(NamedTuple):
    """When a break should begin, how long it is, and what it is for."""

    at: int
    minutes: int
    what: str


class Row(NamedTuple):
    """A line of the timetable; start and end are minutes since midnight."""

    start: int
    end: int
    title: str
    labels: tuple[str, ...] = ()
    work: bool = True


def clock(text: str) -> int:
    """Minutes since midnight of a time such as `09:30`.

    Raises `BadInput` for anything else, also for a number, which YAML makes of 9:30 unquoted.
    """
    hours, colon, rest = str(text).partition(":")
    if not (colon and hours.isdigit() and len(rest) == 2 and rest.isdigit()) or int(rest) > 59:
        raise BadInput(f'{text!r} is no time of day: write it in quotes, as "09:30".')
    return 60 * int(hours) + int(rest)


def shown(minute: int) -> str:
    """`09:30`"""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def up(minutes: int) -> int:
    """The next multiple of five minutes."""
    return -(-minutes // STEP) * STEP


def rounded(block: Block) -> Block:
    """The block with parts that begin and end at multiples of five minutes; it gets no shorter."""
    total, passed, parts = up(block.minutes), 0, []
    exact = 0
    for number, (label, minutes) in enumerate(block.parts, start=1):
        exact += minutes
        end = total if number == len(block.parts) else min(total, round(exact / STEP) * STEP)
        parts.append(Part(label, end - passed))
        passed = end
    return Block(block.title, tuple(parts))


def lay_out(blocks: Sequence[Block], start: int, breaks: Sequence[Break]) -> list[Row]:
    """The rows of a day.

    Parameters
    ----------
    blocks
        The work, in order.
    start
        When the first block begins, in minutes since midnight.
    breaks
        In order; each is put where a part of the work ends, the nearest such time to its own.

    Returns
    -------
    list of Row
        Without a gap: each row begins when the one before it ends.
    """
    parts = [(block.title, part) for block in map(rounded, blocks) for part in block.parts]
    ends = [0]
    for _, part in parts:
        ends.append(ends[-1] + part.minutes)
    rows: list[Row] = []
    now, done = start, 0
    for pause in breaks:
        # What a break moves is all that comes after it, so its place is looked for in worked time.
        worked = pause.at - start - sum(row.end - row.start for row in rows if not row.work)
        place = min(range(len(ends)), key=lambda i: abs(ends[i] - worked))
        if not done < place < len(parts):
            continue  # the work is over by then, or has not gone on since the last break
        now = _work(rows, parts[done:place], now)
        rows.append(Row(now, now + pause.minutes, pause.what, work=False))
        now, done = now + pause.minutes, place
    _work(rows, parts[done:], now)
    return rows


def _work(rows: list[Row], parts: Sequence[tuple[str, Part]], now: int) -> int:
    """Add a row for each block that these parts belong to, and return the time at its end."""
    for title, part in parts:
        end = now + part.minutes
        labels = (part.label,) if part.label else ()
        last = rows[-1] if rows else None
        if last is not None and last.work and last.title == title:
            rows[-1] = last._replace(end=end, labels=last.labels + labels)
        else:
            rows.append(Row(now, end, title, labels))
        now = end
    return now
