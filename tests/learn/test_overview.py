"""`learn.progress`: the student's own way through the course."""

import json
from pathlib import Path
from typing import Any

import pytest

from dtlib import learn
from dtlib.learn import history
from dtlib.learn.catalogue import exercises, in_order
from dtlib.learn.source import find, lessons, path_of

pytestmark = pytest.mark.usefixtures("demo_lesson")


def row(capsys: Any) -> list[str]:
    capsys.readouterr()
    learn.progress()
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("90 ")]
    return found[0].removeprefix("90 A lesson for the tests").split() if found else []


def test_it_counts_passes_attempts_and_predictions(capsys: Any) -> None:
    assert row(capsys) == []  # lesson 90 is not on the path, and nothing was done in it
    learn.check("double", lambda x: x)
    assert row(capsys) == ["0", "of", "1", "1", "0", "of", "2"]
    learn.check("double", lambda x: 2 * x)
    for key, value in (("result", 6), ("grows", "a little"), ("of another version", 1)):
        with history.change("90_demo", "predictions", key) as entry:
            entry.update(value=value, right=key == "result")
    assert row(capsys) == ["1", "of", "1", "2", "2", "of", "2", "1"]


@pytest.mark.parametrize("entry", [3, [], {"passed": True, "checks": "many"}])
def test_a_progress_file_that_somebody_edited_stops_nothing(capsys: Any, entry: Any) -> None:
    with history.change("90_demo", "exercises", "other") as other:
        other["checks"] = 1
    with history.change("90_demo", "predictions", "result") as guess:
        guess["value"] = 1
    path = Path(".dtlib/progress.json")
    state = json.loads(path.read_text())
    state["90_demo"]["exercises"]["double"] = entry
    path.write_text(json.dumps(state))
    learn.progress()
    assert "exercises passed" in capsys.readouterr().out


def test_all_lessons_of_the_path_come_first_and_in_its_order(monkeypatch: Any) -> None:
    monkeypatch.delenv("DTLIB_LESSONS")
    monkeypatch.chdir(Path(__file__).parent)
    numbers, path = [lesson.number for lesson in in_order()], path_of()
    first = [number for number in path if number in numbers]
    assert numbers[: len(first)] == first and first[:2] == ["00", "07"]
    assert sorted(numbers) == [lesson.number for lesson in lessons()]
    assert exercises(find("07"))[:2] == ["global_mean", "pass_right"]
