"""`dtlib class report`: how a class ended, as a table and as a CSV file."""

from __future__ import annotations

import time
from pathlib import Path

from dtlib.config.files import write_csv
from dtlib.learn.show import table
from dtlib.lessons.class_view.overview import catalogue, shown, state
from dtlib.lessons.class_view.store import Store

COLUMNS = ("student", "exercise", "state", "attempts", "refusals", "latest", "mistake", "sentence")


def report(folder: Path, to: Path | None) -> str:
    """Return the table of a class, and write one row per student and exercise to `to`.

    Raises
    ------
    BadInput
        When there is no class in the folder.
    """
    store, known = Store(folder), catalogue()
    standings = store.standings()
    found = shown(known, store.students(), standings)
    store.close()
    rows = [
        [f"{lesson['number']}/{one['name']}", one["number"] or "", one["passed"], one["trying"],
         one["stuck"], ", ".join(f"{len(m['who'])} × {m['key']}" for m in one["mistakes"])]
        for lesson in found["lessons"]
        for one in lesson["exercises"]
    ]  # fmt: skip
    columns = ["exercise", "number", "passed", "trying", "stuck", "stuck on"]
    lines = [f"Students who have joined: {found['students']}. {found['rule']}"]
    lines.append(table(rows, columns).text if rows else "No verdict has arrived.")
    if to is not None:
        content = []
        for one in standings:
            passed, exercise = state(one) == "passed", known.get(one.exercise)
            sentences = exercise.sentences if exercise and not passed else {}
            content.append(
                {"student": one.name or f"left {one.student}", "exercise": one.exercise,
                 "state": state(one), "attempts": one.attempts, "refusals": one.refusals,
                 "latest": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.arrived)),
                 "mistake": one.key, "sentence": sentences.get(one.key)}
            )  # fmt: skip
        write_csv(to, COLUMNS, content)
        lines.append(f"Written: {to}")
    return "\n".join(lines)
