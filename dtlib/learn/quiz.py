"""The quiz of a lesson: questions from the sidecar, with new numbers for each try."""

from __future__ import annotations

import random
from typing import Any

from dtlib.learn import history, session
from dtlib.learn.sentences import fill
from dtlib.learn.show import show

DRAWS = 4


def quiz() -> None:
    """Show the lesson's quiz; every option has an explanation, and a retry changes the numbers.

    Raises
    ------
    BadInput
        When a question's template uses a name that the question does not define.
    """
    from dtlib.learn.widgets import QuizForm

    lesson = session.current()
    show(QuizForm(lesson.stem, drawn(lesson.sidecar.get("quiz") or [], history.runs())))


def drawn(quiz: list[dict[str, Any]], runs: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Fill in each question `DRAWS` times; the same sidecar always gives the same numbers.

    Parameters
    ----------
    quiz
        The sidecar's questions: `question`, `options` (`text`, `why`, one with `right: true`), and
        optionally `id`, `from`, `output`, `vary` (name to list of values) and `mine` (name to
        `{lesson, what, otherwise}`, the student's own number from `my_runs.csv`; the name followed
        by `_measured` tells whether there is one).
    runs
        Rows of `my_runs.csv`.
    """
    return [
        {
            "id": str(item.get("id", f"question {number}")),
            "from": str(item.get("from", "")),
            "variants": [_variant(item, number, draw, runs) for draw in range(DRAWS)],
        }
        for number, item in enumerate(quiz, start=1)
    ]


def _variant(
    item: dict[str, Any], number: int, draw: int, runs: list[dict[str, str]]
) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for place, (name, values) in enumerate((item.get("vary") or {}).items()):
        # Neighbouring draws differ in every name, which random draws would not guarantee.
        names[name] = values[(draw + place) % len(values)]
    for name, own in (item.get("mine") or {}).items():
        theirs = _own_number(own, runs)
        names[f"{name}_measured"] = theirs is not None
        names[name] = float(own["otherwise"]) if theirs is None else theirs
    options = [
        {
            "text": _line(option["text"], names),
            "right": bool(option.get("right", False)),
            "why": _line(option["why"], names),
        }
        for option in item["options"]
    ]
    random.Random(number * DRAWS + draw).shuffle(options)
    output = fill(item["output"], names).rstrip("\n") if item.get("output") else ""
    return {"text": _line(item["question"], names), "output": output, "options": options}


def _line(template: Any, names: dict[str, Any]) -> str:
    return " ".join(fill(str(template), names).split())


def _own_number(own: dict[str, Any], runs: list[dict[str, str]]) -> float | None:
    for row in reversed(runs):
        if row["what"] == own["what"] and row["lesson"] == str(own.get("lesson", row["lesson"])):
            if row.get("source", "").endswith(history.NOISE):
                break
            try:
                return float(row["measured"])
            except ValueError:
                break
    return None
