"""From verdicts to what an instructor sees: who passed, who tries, who is stuck on what."""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtlib.learn.catalogue import exercises, in_order, mistakes
from dtlib.lessons.class_view.store import Standing
from dtlib.lessons.teaching.exercises import exercises as numbered

STUCK = 3  # refusals without a pass
RULE = (
    f"Stuck means {STUCK} or more refusals and no pass yet; a student is counted under the mistake "
    "of the latest refusal. The numbers of the sentences stay on the student's machine."
)


@dataclass(frozen=True)
class Exercise:
    """What the server knows about an exercise: its lesson, and the sentence of each mistake."""

    lesson: str  # number
    title: str  # of the lesson
    name: str
    number: int | None  # that of its heading, by which a room calls it
    sentences: Mapping[str, str]


def catalogue() -> dict[str, Exercise]:
    """All exercises of the course by `NN/name`, in the order of the path."""
    return {
        f"{lesson.number}/{name}": Exercise(
            lesson.number, lesson.header["title"], name, numbers.get(name),
            {key: without_numbers(text) for key, text in mistakes(lesson, name).items()},
        )
        for lesson in in_order()
        for numbers in [{one.name: one.number for one in numbered(lesson)}]
        for name in exercises(lesson)
    }  # fmt: skip


def without_numbers(sentence: str) -> str:
    """Return a sidecar's sentence with `…` for everything that a check fills in."""
    parts = string.Formatter().parse(sentence)
    text = "".join(literal + "…" * (field is not None) for literal, field, _, _ in parts)
    return re.sub(r"…(\s*…)+", "…", " ".join(text.split()))


def state(standing: Standing) -> str:
    """Return `passed`, `stuck` or `trying`."""
    if standing.passes:
        return "passed"
    return "stuck" if standing.refusals >= STUCK else "trying"


@dataclass
class Count:
    """How many students are where with one exercise; `stuck` has their names by mistake."""

    passed: int = 0
    trying: int = 0
    stuck: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def counted(standings: Iterable[Standing]) -> dict[str, Count]:
    """Count students by exercise; whoever has left still counts where they passed."""
    found: dict[str, Count] = defaultdict(Count)
    for one in standings:
        count, now = found[one.exercise], state(one)
        if now == "passed":
            count.passed += 1
        elif one.name is not None and now == "stuck":
            count.stuck[one.key].append(one.name)
        elif one.name is not None:
            count.trying += 1
    return found


def shown(
    known: Mapping[str, Exercise], names: Sequence[str], standings: Sequence[Standing]
) -> dict[str, Any]:
    """Return what the page draws: the lessons in which anything has happened, and their counts."""
    counts = counted(standings)
    active = {known[key].lesson for key in counts if key in known}
    found: dict[str, dict[str, Any]] = {}
    for key, exercise in known.items():
        if exercise.lesson not in active:
            continue
        about = {"number": exercise.lesson, "title": exercise.title, "exercises": []}
        lesson = found.setdefault(exercise.lesson, about)
        lesson["exercises"].append(_one(exercise, counts.get(key, Count())))
    return {"students": len(names), "rule": RULE, "lessons": list(found.values())}


def _one(exercise: Exercise, count: Count) -> dict[str, Any]:
    where = [
        {"key": key, "sentence": exercise.sentences.get(key, key), "who": who}
        for key, who in sorted(count.stuck.items(), key=lambda item: -len(item[1]))
    ]
    stuck = sum(map(len, count.stuck.values()))
    return {
        "name": exercise.name, "number": exercise.number, "passed": count.passed,
        "trying": count.trying, "stuck": stuck, "mistakes": where,
    }  # fmt: skip
