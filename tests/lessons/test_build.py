"""One source gives the student's and the instructor's notebook, the same bytes every time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lesson_sources import write

from dtlib.errors import BadInput
from dtlib.learn.source import find, lessons
from dtlib.lessons import main
from dtlib.lessons.build import build_notebooks, derive
from dtlib.lessons.markdown import plain
from dtlib.lessons.validate import validate_all

FIXTURES = Path(__file__).parents[1] / "fixtures"
DEMO = find("90", FIXTURES / "lessons_src")


def cells(kind: str) -> list[dict[str, Any]]:
    return json.loads(derive(DEMO, kind))["cells"]


def texts(kind: str) -> str:
    return "\n\n".join("".join(cell["source"]) for cell in cells(kind))


@pytest.mark.parametrize("kind", ["student", "instructor"])
def test_a_notebook_is_valid_and_has_no_outputs(kind):
    notebook = nbformat.reads(derive(DEMO, kind), as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert all(
        not c.outputs and c.execution_count is None for c in notebook.cells if c.cell_type == "code"
    )


def test_the_student_gets_stubs_and_no_solution():
    text = texts("student")
    assert "...  # your code here" in text
    for hidden in ("return 2 * x", "SOLUTION", "A second way", "third way", "Bring apples"):
        assert hidden not in text


def test_the_instructor_gets_solutions_and_notes():
    text = texts("instructor")
    assert "return 2 * x" in text and "A second way" in text and "third way" in text
    assert "> Before you begin: Bring apples." in text
    assert "> Minutes: 1 to read and run, 2 for the exercises.\n" in text
    assert "> What goes wrong: They square it.\n>\n> Ask the room: What is twice nothing?" in text
    assert text.index("They square it") < text.index("return 2 * x")
    assert "SOLUTION" not in text and "your code here" not in text


def test_the_title_cell_is_made_from_the_header():
    first = "".join(cells("student")[0]["source"])
    assert first.startswith("# 90 A lesson for the tests\n\nAfter this lesson you can\n\n- double")
    assert "Reading 1 min, exercises 2 min. Needs: laptop. Builds on: nothing." in first


def test_hints_are_folded_and_directives_become_plain():
    text = texts("student")
    assert "<details><summary>Hint</summary>\n\nThink of two.\n\n</details>" in text
    assert "> **Note: On doubling**\n>\n> It is what doubling says." in text
    assert "{note}" not in text


@pytest.mark.parametrize(("myst", "markdown"), [
    ("```{figure} ring.png\n:alt: Four ranks\nA ring.\n```", "![Four ranks](ring.png)\n\nA ring."),
    ("```{math}\nx = 1\n```", "$$\nx = 1\n$$"),
    ("```{code-block} python\nx = 1\n```", "```python\nx = 1\n```"),
    (":::{admonition} Mind\nThis.\n:::", "> **Mind**\n>\n> This."),
    ("See {ref}`the ring <ring>`.", "See the ring."),
    ("(ring)=\n# Ring", "# Ring"),
    ("```python\nx = {1}\n```", "```python\nx = {1}\n```"),
])  # fmt: skip
def test_myst_as_plain_markdown(myst, markdown):
    assert plain(myst) == markdown


def test_the_same_bytes_in_another_process_and_folder(tmp_path):
    code = (
        "import sys; from pathlib import Path; from dtlib.learn.source import find;"
        "from dtlib.lessons.build import derive;"
        "sys.stdout.write(derive(find('90', Path(sys.argv[1])), 'student'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(FIXTURES / "lessons_src")],
        capture_output=True, check=True, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert done.stdout == derive(DEMO, "student").encode()


def test_ids_differ_within_a_notebook_and_stay_when_a_cell_is_added(tmp_path):
    path = write(tmp_path, "80", "x = 1", "x = 1", "y = 2")
    before = [c["id"] for c in json.loads(derive(find("80", tmp_path), "student"))["cells"]]
    path.write_text(path.read_text() + "\n# %%\nz = 3\n")
    after = [c["id"] for c in json.loads(derive(find("80", tmp_path), "student"))["cells"]]
    assert len(set(after)) == len(after) and after[: len(before)] == before


def test_build_writes_check_compares_and_what_has_no_source_goes(tmp_path, monkeypatch, capsys):
    sources = tmp_path / "lessons_src"
    path = write(sources, "80", "x = 1")
    monkeypatch.setenv("DTLIB_LESSONS", str(sources))
    assert main(["build", "--check"]) == 1  # not there yet
    assert main(["build"]) == 0
    assert main(["build", "--check"]) == 0
    notebook = tmp_path / "notebooks/student/80_lesson80.ipynb"
    old = notebook.read_bytes()
    path.write_text(path.read_text() + "\n# %%\ny = 2\n")
    capsys.readouterr()
    assert main(["build", "--check"]) == 1
    assert f"differs from its source: {notebook}" in capsys.readouterr().out
    assert notebook.read_bytes() == old
    main(["build"])
    path.unlink()
    write(sources, "81", "x = 1")
    assert main(["build", "--check"]) == 1
    main(["build"])
    assert not notebook.exists()
    assert build_notebooks(sources, tmp_path / "notebooks", check=True) == []


EXERCISE = (
    '# %% tags=["exercise"]\ndef f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION'
)


@pytest.mark.parametrize(("header", "says"), [
    ({"title": ""}, "80_lesson80/lesson.py: its header has no `title`."),
    ({"number": '"81"'}, "its header says number 81, its folder 80"),
    ({"objectives": "[one, two]"}, "`objectives` must be a list of three things"),
    ({"minutes": "20"}, "`minutes` must hold whole numbers under `read` and `exercises`."),
    ({"needs": "[tpu]"}, "among laptop, linux, deepspeed, s3, gpu, multi-gpu, slurm, not tpu."),
    ({"needs": "[]"}, "`needs` must be among"),
    ({"builds_on": "[7]"}, "`builds_on` must list two-digit numbers in quotes"),
])  # fmt: skip
def test_a_broken_header_is_one_sentence(tmp_path, header, says):
    write(tmp_path, "80", **header)
    refused(tmp_path, says)


def refused(folder: Path, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        validate_all(lessons(folder))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


WRITTEN = """# %% tags=["exercise"]
def g(x):
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION"""


@pytest.mark.parametrize(("cell", "says"), [
    ('# %% tags=["parameters"]\nb = 1', "one cell must be tagged `parameters`, not 2"),
    ('# %% tags=["exercize"]\nb = 1', "unknown tag exercize"),
    ("!ls", "a bare `!` hides its exit code"),
    ("# !ls", "a bare `!` hides its exit code"),
    ("x = (1", "line 15: '(' was never closed."),
    (f"x = '{'a' * 90}'", "columns; the limit is 79"),
    ('learn.predict("p")', 'learn.predict("p") at line 15 needs `predictions: p`'),
    ('learn.measured("p", 3)', "needs `predictions: p` in lesson.yaml"),
    ('learn.check("f", f)', "needs `hints: f` in lesson.yaml"),
    ('learn.what_if("w")', "needs `what_if: w`"),
    (f"{WRITTEN}\n\n# %%\ng(1)", "this cell needs `g`, which the student may not have"),
    (f"{WRITTEN}\n\n# %%\n# %%ranks 2\nprint(g(1))", 'learn.given("g") has it'),
    (f"{WRITTEN}\n### BEGIN SOLUTION\nimport os\n### END SOLUTION", "define the same names"),
    (f"{WRITTEN}\n### BEGIN SOLUTION\na, b = 1, 2\n### END SOLUTION", "the same names"),
    (f'{WRITTEN}\n\n# %% tags=["check"]\nprint(g(1))', "this cell needs `g`"),
    (f"{WRITTEN}\n### BEGIN SOLUTION\nh = 2\n### END SOLUTION", "define the same names"),
])  # fmt: skip
def test_a_broken_cell_is_one_sentence(tmp_path, cell, says):
    write(tmp_path, "80", cell)
    refused(tmp_path, says)


RIGHT = "{text: a, why: b, right: true}"


@pytest.mark.parametrize(("sidecar", "says"), [
    ("hints: {f: [a, b]}", "needs `mistakes: f` in lesson.yaml"),
    ("hint: {}", "80_lesson80/lesson.yaml: unknown key 'hint'"),
    (f"predictions: {{p: {{options: [{RIGHT}]}}}}", "prediction p: an option may not have right."),
    ("quiz: [{question: q, options: [{text: a, why: b}]}]", "quiz question 1 needs"),
    (f"quiz: [{{question: q, options: [{RIGHT}, {{text: c}}]}}]", "option 'c' has no `why`"),
    (f"quiz: [{{question: q, options: [{RIGHT}, {RIGHT}]}}]", "one of them right; 2 are right"),
    (f"quiz: [{{question: '{{m}}', options: [{RIGHT}, {{text: c, why: d}}]}}]", "'m'"),
])  # fmt: skip
def test_a_broken_sidecar_is_one_sentence(tmp_path, sidecar, says):
    write(tmp_path, "80", 'learn.check("f", f)', sidecar=sidecar)
    if "hint" not in sidecar:
        write(tmp_path, "80", sidecar=sidecar)
    refused(tmp_path, says)


def test_what_keeps_the_rules_is_accepted(tmp_path):
    validate_all([DEMO])
    write(tmp_path, "80", EXERCISE, "# %%\n# %%ranks 4\nprint(rank)", "%matplotlib inline")
    validate_all(lessons(tmp_path))


def test_a_solution_stays_hidden_when_its_cell_lacks_the_tag(tmp_path):
    write(tmp_path, "80", EXERCISE.replace(' tags=["exercise"]', ""))
    assert "return 1" not in derive(find("80", tmp_path), "student")


def test_a_notebook_that_somebody_wrote_in_and_did_not_run_is_kept(tmp_path):
    path = write(tmp_path / "src", "01", "x = 1")
    build_notebooks(tmp_path / "src", tmp_path / "notebooks")
    student = tmp_path / "notebooks" / "student" / "01_lesson01.ipynb"
    path.write_text(path.read_text().replace("x = 1", "x = 2"))
    build_notebooks(tmp_path / "src", tmp_path / "notebooks")
    assert not (student.parent / "kept").exists()  # nobody wrote in that one
    student.write_text(student.read_text().replace("x = 2", "my_answer = 3"))
    build_notebooks(tmp_path / "src", tmp_path / "notebooks")
    assert "my_answer" in (student.parent / "kept" / "01_lesson01-1.ipynb").read_text()
    assert "x = 2" in student.read_text()


def test_a_notebook_that_somebody_ran_is_kept(tmp_path):
    sources, notebooks = tmp_path / "src", tmp_path / "notebooks"
    lesson = write(sources, "01", "x = 1")
    build_notebooks(sources, notebooks)
    student = notebooks / "student" / "01_lesson01.ipynb"
    for work in ("first", "second"):
        worked = json.loads(student.read_text(encoding="utf-8"))
        worked["cells"][-1] |= {"source": [work], "execution_count": 1}
        student.write_text(json.dumps(worked), encoding="utf-8")
        build_notebooks(sources, notebooks)
    kept = sorted((notebooks / "student" / "kept").iterdir())
    assert [path.name for path in kept] == ["01_lesson01-1.ipynb", "01_lesson01-2.ipynb"]
    assert "first" in kept[0].read_text(encoding="utf-8")
    assert "second" in kept[1].read_text(encoding="utf-8")
    assert build_notebooks(sources, notebooks, check=True) == []

    student.write_text(kept[0].read_text(encoding="utf-8"), encoding="utf-8")
    lesson.unlink()
    build_notebooks(sources, notebooks)
    assert not student.exists()
    assert (notebooks / "student" / "kept" / "01_lesson01-3.ipynb").exists()


def test_a_circle_is_named(tmp_path):
    for number, other in [("80", "81"), ("81", "82"), ("82", "80")]:
        write(tmp_path, number, builds_on=f'["{other}"]')
    with pytest.raises(BadInput, match="cycle: 80 → 81 → 82 → 80"):
        validate_all(lessons(tmp_path))


def test_the_path_meets_nothing_too_early(tmp_path):
    (tmp_path / "path.yaml").write_text('path: ["07", "01"]')
    write(tmp_path, "07", builds_on='["01"]')
    write(tmp_path, "01")
    with pytest.raises(BadInput, match="it builds on 01, which comes later on the path"):
        validate_all(lessons(tmp_path))
    write(tmp_path, "07")
    write(tmp_path, "01", builds_on='["07", "03"]')  # 03 is on the shelf: any order
    validate_all(lessons(tmp_path))


def test_list(monkeypatch, capsys):
    monkeypatch.setenv("DTLIB_LESSONS", str(FIXTURES / "lessons_src"))
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "90  A lesson for the tests  (3 min; needs laptop)\n"
