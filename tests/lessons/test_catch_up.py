"""`dtlib lessons catch-up`: a notebook with the first exercises solved, and nobody's work lost."""

import json
import shutil
from pathlib import Path

import pytest

from dtlib.errors import BadInput
from dtlib.learn.source import STUB, find
from dtlib.lessons import main

PROJECT = Path(__file__).resolve().parents[2]
OURS = ("00_start_here", "07_ranks_and_collectives")


@pytest.fixture
def student(tmp_path, monkeypatch) -> Path:
    """The folder of the student's notebooks of a course with two lessons."""
    for name in OURS:
        shutil.copytree(PROJECT / "lessons_src" / name, tmp_path / "lessons_src" / name)
    monkeypatch.setenv("DTLIB_LESSONS", str(tmp_path / "lessons_src"))
    return tmp_path / "notebooks" / "student"


def code_of(path: Path, name: str) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return next(
        text for cell in cells if f"def {name}(" in (text := "".join(cell["source"]))
    )  # fmt: skip


def test_the_first_exercises_are_solved_and_the_others_are_not(student, capsys):
    mine = student / "07_ranks_and_collectives.ipynb"
    student.mkdir(parents=True)
    mine.write_text("my work")
    assert main(["catch-up", "07", "--to", "3"]) == 0
    path = student / "catch_up_07_to_3.ipynb"
    for name in ("global_mean", "pass_right", "ring_reduce_scatter", "ring_all_reduce"):
        assert STUB not in code_of(path, name), name
        assert find("07").definition(name) in code_of(path, name)
    for name in ("ring_time", "tree_time"):
        assert STUB in code_of(path, name), name
    second = "".join(json.loads(path.read_text())["cells"][1]["source"])
    assert "exercises 1, 2 and 3 of lesson 07 are solved" in second
    assert "go on with exercise 4" in second
    assert mine.read_text() == "my work"
    said = capsys.readouterr().out
    assert said.startswith("catch_up_07_to_3.ipynb is new: exercises 1, 2 and 3 solved; go on with")
    assert said.endswith(f"{path}\n")


def test_a_copy_that_somebody_worked_in_stays_and_one_that_nobody_touched_is_used(student, capsys):
    for _ in range(2):
        assert main(["catch-up", "0", "--to", "1"]) == 0
    assert "was there already, and nobody has changed it" in capsys.readouterr().out
    first = student / "catch_up_00_to_1.ipynb"
    first.write_text(first.read_text().replace(STUB, "return my_work"))
    assert main(["catch-up", "00", "--to", "1"]) == 0
    assert "catch_up_00_to_1_2.ipynb is new: exercise 1 solved" in capsys.readouterr().out
    assert "my_work" in first.read_text()
    assert STUB in code_of(student / "catch_up_00_to_1_2.ipynb", "everyones_sum")


def test_a_build_leaves_the_copy_alone(student, capsys):
    main(["catch-up", "00", "--to", "2"])
    copy = student / "catch_up_00_to_2.ipynb"
    before = copy.read_bytes()
    assert "every exercise is solved" in capsys.readouterr().out
    main(["build"])
    assert copy.read_bytes() == before and (student / "00_start_here.ipynb").exists()


@pytest.mark.parametrize(("to", "says"), [
    ("3", "lesson 00 has no exercise 3; it has exercises 1 and 2."),
    ("0", "lesson 00 has no exercise 0; it has exercises 1 and 2."),
])  # fmt: skip
def test_an_exercise_that_is_not_there_is_refused(student, to, says):
    with pytest.raises(BadInput) as told:
        main(["catch-up", "00", "--to", to])
    assert str(told.value) == says
    assert not student.exists()
