"""The course's own lessons: their sources keep the rules, notebooks and checks fit to them."""

import ast
import json
import string
import subprocess
from pathlib import Path

import npm
import pytest

from dtlib.learn import rooms
from dtlib.learn.source import Lesson, lessons
from dtlib.learn.verdicts import COMMON
from dtlib.learn.what_if import formula, page_source
from dtlib.lessons.build import build_notebooks
from dtlib.lessons.validate import calls, validate_all

PROJECT = Path(__file__).resolve().parents[2]
COURSE = lessons(PROJECT / "lessons_src")


def checked(lesson: Lesson) -> list[str]:
    """The exercises that a lesson checks, in order."""
    return [name for function, name, _ in calls(lesson) if function == "check"]


def test_every_source_keeps_the_rules() -> None:
    validate_all(COURSE)


def test_the_notebooks_are_those_of_the_sources() -> None:
    changed = build_notebooks(PROJECT / "lessons_src", PROJECT / "notebooks", check=True)
    assert changed == [], "run `dtlib lessons build` and commit what it writes"


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.stem)
def test_every_checked_exercise_has_a_stub_a_solution_and_two_hints(lesson: Lesson) -> None:
    names = checked(lesson)
    if not names:
        pytest.skip("no exercise in this lesson")
    exercises = rooms.module(lesson, "exercises").EXERCISES
    assert set(names) <= set(exercises)
    for name in names:
        assert lesson.definition(name) != lesson.definition(name, as_stub=True), name
        assert len(lesson.sidecar["hints"][name]) >= 2, name
        assert lesson.sidecar["mistakes"][name], name


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.stem)
def test_every_sentence_is_one_paragraph_of_its_own_and_can_be_filled(lesson: Lesson) -> None:
    for name, sentences in (lesson.sidecar.get("mistakes") or {}).items():
        texts = [" ".join(text.split()) for text in sentences.values()]
        assert len(set(texts)) == len(texts), name
        for key, text in sentences.items():
            for _, expression, _, _ in string.Formatter().parse(text):
                if expression is not None:
                    ast.parse(expression.strip(), mode="eval")  # a name, or arithmetic
            assert text != COMMON.get(key), (name, key)


WHAT_IFS = [
    (lesson, name)
    for lesson in COURSE
    for name, entry in (lesson.sidecar.get("what_if") or {}).items()
    if not entry.get("kernel")
]


@pytest.mark.parametrize(("lesson", "name"), WHAT_IFS, ids=lambda part: str(part))
def test_a_what_if_answers_everywhere_and_could_run_in_a_page(lesson: Lesson, name: str) -> None:
    entry = lesson.sidecar["what_if"][name]
    module, function_name = formula(lesson, entry)
    for end in ("min", "value", "max"):
        result = getattr(module, function_name)(**{i["name"]: i[end] for i in entry["inputs"]})
        assert result["says"].strip()
        for curve in result["curves"].values():
            assert all(len(point) == 2 for point in curve)
            assert len(curve) >= 2
    # MicroPython, which runs the module's text in a page, has neither dataclasses nor typing.
    tree = ast.parse(page_source(module))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"math"}


PAGE = """
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript/micropython.mjs";
import { readFileSync } from "node:fs";
const task = JSON.parse(readFileSync(0, "utf8"));
const lines = [];
const python = await loadMicroPython({ stdout: (line) => lines.push(line), linebuffer: true });
python.runPython(task.source);
python.globals.set("settings", JSON.stringify(task.settings));
python.runPython(
  `import json\nprint(json.dumps([${task.name}(**each) for each in json.loads(settings)]))`
);
console.log(lines.join(""));
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which node finds MicroPython, which the website brings to a page."""
    folder = tmp_path_factory.mktemp("node")
    npm.install(folder, "@micropython/micropython-webassembly-pyscript@1.27.0")
    (folder / "page.mjs").write_text(PAGE)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("lesson", "name"), WHAT_IFS, ids=lambda part: str(part))
def test_a_page_gives_the_same_answer(lesson: Lesson, name: str, node: Path) -> None:
    entry = lesson.sidecar["what_if"][name]
    module, function_name = formula(lesson, entry)
    settings = [{i["name"]: i[end] for i in entry["inputs"]} for end in ("min", "value", "max")]
    task = {"source": page_source(module), "name": function_name, "settings": settings}
    done = subprocess.run(
        ["node", "page.mjs"], cwd=node, input=json.dumps(task), text=True,
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    for each, there in zip(settings, json.loads(done.stdout), strict=True):
        here = getattr(module, function_name)(**each)
        assert there["says"] == here["says"]
        for curve, points in here["curves"].items():
            for point, same in zip(points, there["curves"][curve], strict=True):
                assert same == pytest.approx(point, rel=1e-12)
