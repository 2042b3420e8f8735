"""What is kept of the counts: each room's verdicts and last count, and the table of all lessons.

A room's `bank/mutants.yaml` is written by hand: exercise → `{mutant, why}` of each survivor that is
right in truth; several that are so for one reason may be a list. `bank/mutation.json` is written
by `--keep`: what was counted, and who survived.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import banks
import yaml

from dtlib.learn import ladder, source
from mutation import mutants, trial

HERE = Path(__file__).parent
BEFORE = HERE / "before.json"  # rows and cases of each exercise when the operators were fixed
TABLE = HERE / "README.md"


def verdicts(lesson: source.Lesson) -> dict[str, dict[str, str]]:
    """Exercise → name of a survivor → why it is right in truth."""
    path = lesson.room / "bank" / "mutants.yaml"
    given = yaml.safe_load(path.read_text()) if path.exists() else {}
    return {
        exercise: {
            name: " ".join(one["why"].split())
            for one in several
            for name in ([one["mutant"]] if isinstance(one["mutant"], str) else one["mutant"])
        }
        for exercise, several in (given or {}).items()
    }


def count(
    lesson: source.Lesson, exercise: str, findings: list[trial.Finding], seconds: float
) -> dict[str, Any]:
    """What is kept of one exercise."""
    check = ladder.find_exercise(lesson, exercise)
    refused = Counter(f.key for f in findings if not f.survived)
    own = sum(n for key, n in refused.items() if not trial.is_fallback(key, check))
    return {
        "made": len(mutants.all_of(lesson, check)),
        "mutants": len(findings),
        "refused": sum(refused.values()),
        "specific": own,
        "survivors": [f.mutant.name for f in findings if f.survived],
        "keys": dict(sorted(refused.items())),
        "seconds": round(seconds),
        **sizes(exercise, check, lesson),
    }


def sizes(exercise: str, check: Any, lesson: source.Lesson) -> dict[str, int]:
    """Rows of an exercise's bank, and cases of its check."""
    rows = next(
        b.rows for b in banks.banks()
        if b.lesson.number == lesson.number and b.exercise == exercise
    )  # fmt: skip
    return {"rows": len(rows), "cases": len(check.cases)}


def kept(lesson: source.Lesson) -> dict[str, dict[str, Any]]:
    """What was counted last in a room."""
    path = lesson.room / "bank" / "mutation.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(lesson: source.Lesson, counts: dict[str, dict[str, Any]]) -> None:
    """Write a room's counts; exercises that were not counted now keep theirs."""
    path = lesson.room / "bank" / "mutation.json"
    path.write_text(json.dumps(kept(lesson) | counts, indent=1) + "\n")


def table() -> str:
    """The page of all lessons."""
    before = json.loads(BEFORE.read_text())
    lines = [f"| {' | '.join(_HEADS)} |", "| --- |" + " --: |" * (len(_HEADS) - 1)]
    sums: Counter[str] = Counter()
    missing = []
    for lesson in source.lessons():
        counts = kept(lesson)
        if not lesson.sidecar.get("mistakes"):
            continue
        if not counts:
            missing.append(lesson.number)
            continue
        row = _row(lesson, counts, before.get(lesson.number, {}))
        sums.update(row)
        lines.append(_line(lesson.number, row))
    lines.append(_line("all", sums))
    left = f"\nNot counted yet: {', '.join(missing)}.\n" if missing else ""
    intro = INTRO.format(seed=mutants.SEED, cap=mutants.CAP)
    return intro + "\n".join(lines) + "\n" + left


_HEADS = ("lesson", "possible", "tried", "refused", "by a sentence of their own", "accepted",
          "right in truth", "cases before", "after", "bank before", "after", "seconds")  # fmt: skip
_KEYS = ("made", "mutants", "refused", "specific", "accepted", "right", "cases before", "cases",
         "rows before", "rows", "seconds")  # fmt: skip


def _line(name: str, row: Any) -> str:
    return f"| {name} | {' | '.join(str(row[key]) for key in _KEYS)} |"


def _row(lesson: source.Lesson, counts: dict[str, Any], before: dict[str, Any]) -> dict[str, int]:
    told = verdicts(lesson)
    row: Counter[str] = Counter(dict.fromkeys(_KEYS, 0))
    for exercise, one in counts.items():
        for key in ("made", "mutants", "refused", "specific", "rows", "cases", "seconds"):
            row[key] += one[key]
        row["accepted"] += len(one["survivors"])
        row["right"] += sum(name in told.get(exercise, {}) for name in one["survivors"])
        row["rows before"] += before.get(exercise, {}).get("rows", 0)
        row["cases before"] += before.get(exercise, {}).get("cases", 0)
    return row


INTRO = """\
# Mutants of the solutions

`python tests/mutation --table` writes this page from the counts that `--keep` left in each room's
`bank/mutation.json`; `book/writing_lessons.md` says how to use it. The operators are in
`statements.py` and `expressions.py`; the seed, {seed}, and the limit of {cap} mutants per
exercise are in `mutants.py`. Every survivor is listed in its room's `bank/mutants.yaml`, with the
reason why it is right in truth. A mutant that was refused, but not by a sentence of its own,
stopped with an error, returned nothing, waited, or got the sentence for all other wrong answers.
"Bank" counts the answers in the room's bank, "cases" the cases of its checks; "before" is when
operators and seed were fixed. The seconds are those of one run on two cores that did other work,
too; counting is not part of the tests.

"""
