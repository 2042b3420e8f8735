"""A room that `dtlib lessons new` made passes all that a lesson must pass."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from processes import python

from dtlib.errors import BadInput
from dtlib.learn.source import find
from dtlib.lessons.commands import main
from dtlib.lessons.scaffold import new_room

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("NN_name", "00_start_here", "conftest.py", "path.yaml")
EVERY_LESSON = [f"tests/lessons/test_{name}.py" for name in ("rules", "course", "banks")]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course of lesson 00 and a new one, with the tests that hold for every lesson."""
    project = tmp_path_factory.mktemp("project")
    shutil.copy(PROJECT / "pyproject.toml", project)
    shutil.copytree(PROJECT / "tests", project / "tests", ignore=_no_caches)
    for name in COPIED:
        source, target = PROJECT / "lessons_src" / name, project / "lessons_src" / name
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTLIB_LESSONS", str(project / "lessons_src"))
        assert main(["new", "03", "text_pipeline"]) == 0
        assert main(["build"]) == 0
    return project / "lessons_src"


def _no_caches(folder: str, names: Sequence[str]) -> set[str]:
    return {name for name in names if name in ("__pycache__", "node_modules")}


def started(sources: Path, *words: str, code: int = 0, lesson: str = "") -> str:
    """Run Python in the copy, with this checkout's dtlib, and return what it says."""
    there = {"PYTHONPATH": str(PROJECT), "DTLIB_LESSONS": str(sources), "LESSON": lesson}
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = python("-m", *words, cwd=sources.parent, env=env | there, timeout=170)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_new_room_has_its_number_and_its_name(sources):
    lesson = find("03", sources)
    assert lesson.stem == "03_text_pipeline"
    assert lesson.header["title"] == "Text pipeline"
    for path in lesson.room.rglob("*.*"):
        if path.suffix in (".py", ".yaml"):
            assert "NN" not in path.read_text() and "TITLE" not in path.read_text(), path


def test_a_new_room_passes_what_every_lesson_passes(sources):
    room = str(find("03", sources).room)
    started(sources, "pytest", *EVERY_LESSON, room, "-p", "no:cacheprovider", "-k", "not 00-")


def test_one_lesson_alone_is_tested_and_one_that_is_not_there_is_refused(sources):
    collect = ("pytest", *EVERY_LESSON, "lessons_src", "--collect-only", "-p", "no:cacheprovider")
    found = started(sources, *collect, lesson="03").splitlines()
    tests = [line for line in found if "::" in line]
    assert any("test_nine_ranks_are_no_faster_than_five" in test for test in tests)
    assert all(any(test.startswith(file) for test in tests) for file in EVERY_LESSON), tests
    assert all("03" in test for test in tests), tests
    said = started(sources, *collect, code=4, lesson="99")
    assert "LESSON=99: there is no lesson 99; the lessons here are 00_start_here, 03" in said
    assert "LESSON=3 is written LESSON=03." in started(sources, *collect, code=4, lesson="3")


@pytest.mark.slow
def test_a_new_room_runs_with_nothing_written_and_with_its_solutions(sources):
    started(sources, "dtlib", "lessons", "run", "03", "--kind", "both")


@pytest.mark.parametrize(("number", "name", "says"), [
    ("00", "text", "that number is taken by 00_start_here; choose another"),
    ("04", "text_pipeline", "that name is taken by 03_text_pipeline"),
    ("4", "text", "a lesson's number must have two digits, such as 03, not '4'"),
    ("NN", "text", "must have two digits"),
    ("04", "Text", "'Text' cannot name a lesson: write lower-case words"),
    ("04", "../text", "cannot name a lesson"),
    ("04", "text_", "cannot name a lesson"),
])  # fmt: skip
def test_a_number_or_name_that_cannot_be_is_refused(sources, number, name, says):
    before = sorted(sources.iterdir())
    with pytest.raises(BadInput, match=says) as told:
        new_room(number, name, sources)
    assert str(told.value).count(".") == 1 + name.count(".")
    assert sorted(sources.iterdir()) == before


def test_without_a_room_to_copy_nothing_is_made(tmp_path):
    with pytest.raises(BadInput, match="has no NN_name, the room that a new lesson is copied from"):
        new_room("04", "text", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_author_is_told_of_a_number_that_no_part_of_the_course_has(sources, capsys, monkeypatch):
    monkeypatch.setenv("DTLIB_LESSONS", str(sources))
    parts = yaml.safe_load((sources / "path.yaml").read_text())["parts"]
    planned = {number for part in parts for number in part["lessons"]}
    assert "03" in planned
    for number in ("05", "98"):
        assert main(["new", number, f"lesson_{number}"]) == 0
        said = capsys.readouterr().out
        assert f"make test LESSON={number}" in said
        assert ("to a part of the course" in said) == (number not in planned)
        shutil.rmtree(sources / f"{number}_lesson_{number}")
