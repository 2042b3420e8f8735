"""Timetables of the routes in `path.yaml`: which lessons, which of their exercises, and when.

Every lesson of a session gets the time to read and run it and its core exercises. What is then
left of the session goes to further exercises, and the rest to questions. A route's timetable may
leave exercises for home (`home`), and marks those that are not of a lesson's core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput
from dtlib.learn.source import Lesson, course, lessons
from dtlib.lessons.teaching.exercises import Exercise, exercises, in_words, minutes
from dtlib.lessons.teaching.timetable import (
    STEP,
    Block,
    Break,
    Part,
    Row,
    clock,
    lay_out,
    shown,
    up,
)

QUESTIONS = "Questions, and catching up"
# More than questions fill: a session's lessons do not exist yet, or are short.
OPEN = "Open: exercises that were left out, or a lesson that is not listed here"
LONG = 45  # minutes
STRETCH = "\\*"  # after the number of an exercise that is not of a lesson's core
Session = tuple[str, list[Row]]


def timetable(kind: str, sources: Path) -> str:
    """The timetable of the route that has stops, days or weeks, as Markdown tables."""
    found = sessions(kind, sources)
    lines: list[str] = []
    if kind == "weeks":  # many short sessions: one table
        lines += ["| session | from | to | min | what |", "| --- | --- | --- | --- | --- |"]
        for name, rows in found:
            lines += [f"| {name if row is rows[0] else ''} {_line(row)}" for row in rows]
        return "\n".join(lines)
    for name, rows in found:
        lines += [f"**{name}**", ""] if name else []
        lines += ["| from | to | min | what |", "| --- | --- | --- | --- |", *map(_line, rows), ""]
    return "\n".join(lines).rstrip()


def _line(row: Row) -> str:
    title = f"*{row.title}*" if not row.work else row.title
    what = f"{title}: {in_words(row.labels)}" if row.labels else title
    return f"| {shown(row.start)} | {shown(row.end)} | {row.end - row.start} | {what} |"


def sessions(kind: str, sources: Path) -> list[Session]:
    """Each session of a route: its name, and its rows.

    Parameters
    ----------
    kind
        `"stops"` (one day), `"days"` or `"weeks"`: what the route of `path.yaml` consists of.
    sources
        The folder `lessons_src`.

    Raises
    ------
    BadInput
        When there is no such route with a `timetable`, or a session is too short for its lessons.
    """
    routes = [r for r in course(sources).get("routes") or [] if kind in r and "timetable" in r]
    if not routes:
        raise BadInput(f"path.yaml has no route with `{kind}` and a `timetable`.")
    route, plan = routes[0], routes[0]["timetable"]
    there = {lesson.number: lesson for lesson in lessons(sources)}
    named = list(_named(kind, route))
    found = []
    for place, (name, chosen) in enumerate(named):
        opens = plan.get("opens") or {} if place == 0 else {}
        closes = plan.get("closes") or {} if place == len(named) - 1 else {}
        own = [there[number] for number in chosen if number in there]
        found.append((name, _session(name or route["have"], plan, own, opens, closes)))
    return found


def _named(kind: str, route: dict[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each session's name and the numbers of its lessons."""
    if kind == "stops":
        yield "", list(route["stops"])
    elif kind == "days":
        yield from ((f"Day {day}", own) for day, own in enumerate(route["days"], start=1))
    else:
        for week, both in enumerate(route["weeks"], start=1):
            for which, own in enumerate(both, start=1):
                yield f"Week {week}, session {which}", own


def _session(
    name: str,
    plan: dict[str, Any],
    chosen: list[Lesson],
    opens: dict[str, int],
    closes: dict[str, int],
) -> list[Row]:
    free = plan["minutes"] - sum(opens.values()) - sum(closes.values())
    blocks = [Block(what, (Part("", spent),)) for what, spent in opens.items()]
    kept = plan.get("questions", 0)
    home = plan.get("home") or {}
    taught = [_block(lesson, own) for lesson, own in allotted(name, chosen, free, kept, home)]
    left = free - sum(up(block.minutes) for block in taught)
    blocks += taught
    if left:
        steps = (Part("", STEP),) * (left // STEP)  # a break may fall between any two of them
        blocks.append(Block(QUESTIONS if left < LONG else OPEN, steps))
    blocks += [Block(what, (Part("", spent),)) for what, spent in closes.items()]
    breaks = [Break(clock(b["at"]), b["minutes"], b["what"]) for b in plan.get("breaks") or []]
    return lay_out(blocks, clock(plan["start"]), breaks)


def allotted(
    name: str,
    chosen: Sequence[Lesson],
    free: int,
    kept: int = 0,
    home: Mapping[str, Sequence[int]] | None = None,
) -> list[tuple[Lesson, list[Exercise]]]:
    """Which exercises of each lesson fit into the minutes of a session, in the lesson's order.

    Exercises that are not of a lesson's core are taken only if `kept` minutes remain for questions,
    all parts of a number or none. `home` has the numbers that a lesson's participants do at home.
    Raises `BadInput` when not even one exercise of each lesson fits.
    """
    own = {lesson.number: [one for one in exercises(lesson) if one.core] for lesson in chosen}
    by_length = sorted(chosen, key=lambda one: -_minutes(one, own[one.number]))
    while _total(chosen, own) > free:
        # Too full: the longest lesson gives up its last exercise.
        long = next((one for one in by_length if len(own[one.number]) > 1), None)
        if long is None:
            raise BadInput(
                f"path.yaml: {name} has {free} minutes for lessons, and "
                f"{', '.join(own)} need {_total(chosen, own)}: move a lesson, or add minutes."
            )
        own[long.number].pop()
        by_length.sort(key=lambda one: -_minutes(one, own[one.number]))
    for lesson in chosen:
        later = (home or {}).get(lesson.number, ())
        numbers = dict.fromkeys(one.number for one in exercises(lesson))
        for number in (number for number in numbers if number not in later):
            more = [one for one in exercises(lesson) if one.number == number]
            wider = own | {lesson.number: sorted({*own[lesson.number], *more}, key=_place)}
            if _total(chosen, wider) <= free - kept:
                own = wider
    return [(lesson, own[lesson.number]) for lesson in chosen]


def _place(exercise: Exercise) -> int:
    return exercise.place


def _minutes(lesson: Lesson, own: Sequence[Exercise]) -> int:
    return int(lesson.header["minutes"]["read"]) + minutes(own)


def _total(chosen: Sequence[Lesson], own: dict[str, list[Exercise]]) -> int:
    """Minutes on the clock, where each lesson begins at a multiple of five minutes."""
    return sum(up(_minutes(lesson, own[lesson.number])) for lesson in chosen)


def _block(lesson: Lesson, own: Sequence[Exercise]) -> Block:
    """A lesson as a block: its reading is spread evenly before and after its exercises."""
    title = f"{lesson.number} {lesson.header['title']}"
    read = lesson.header["minutes"]["read"]
    groups: dict[int, list[Exercise]] = {}
    for one in own:
        groups.setdefault(one.number, []).append(one)
    if not groups:
        return Block(title, (Part("", read),))
    count = len(groups) + 1
    *shares, rest = [read // count + (i < read % count) for i in range(count)]
    parts = [
        Part(f"{number}{'' if group[0].core else STRETCH}", share + minutes(group))
        for (number, group), share in zip(groups.items(), shares, strict=True)
    ]
    return Block(title, (*parts, Part("", rest)))
