"""The website without building it: pages of lessons, one configuration, what may be missing."""

import html
import importlib.metadata
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from lesson_sources import write

import dtlib
from dtlib.learn.source import find, lessons
from dtlib.lessons.build import derive
from dtlib.lessons.needed import files_of
from dtlib.lessons.pages import build_pages, finish, key
from dtlib.lessons.tables import made
from dtlib.measure.noise import WITHIN

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
RUFF = 'ruff>=0.9; extra == "dev"'
DEMO = find("90", Path(__file__).parents[1] / "fixtures" / "lessons_src")
CONFIG = yaml.safe_load((BOOK / "_config.yml").read_text())
TOC = yaml.safe_load((BOOK / "_toc.yml").read_text())
CHAPTERS = [chapter for part in TOC["parts"] for chapter in part["chapters"]]


# --- a lesson's page ----------------------------------------------------------------------------


def page() -> list[dict[str, Any]]:
    notebook = nbformat.reads(derive(DEMO, "page"), as_version=4)
    nbformat.validate(notebook)
    return notebook.cells


def position(text: str) -> int:
    return next(i for i, cell in enumerate(page()) if text in cell.source)


def test_a_page_shows_the_stub_and_then_folds_the_solution_that_runs():
    given, unwritten, solution = page()[position("...  # your code here") :][:3]
    assert given.cell_type == "markdown" and given.source.startswith("```ipython3\ndef double")
    assert "return 2 * x" not in given.source
    assert given.source.splitlines()[1] in unwritten.source  # the student's cell runs first
    assert 'assert not learn.check("double", double)' in unwritten.source
    assert solution.cell_type == "code" and "return 2 * x" in solution.source
    assert solution.metadata.tags == ["exercise", "hide-input"]
    assert solution.metadata.mystnb.code_prompt_show == "Show the solution"
    assert [c.source for c in page() if c.metadata.get("tags") == ["check"]] == [
        'learn.check("double", double)'
    ]
    assert page()[position("A second way")].metadata.tags == ["solution", "hide-input"]


def test_a_page_has_no_instructors_cells_and_folds_hints():
    text = "\n".join(cell.source for cell in page())
    for hidden in ("third way", "Bring apples", "They square it", "SOLUTION"):
        assert hidden not in text
    assert "<details><summary>Hint</summary>\n\nThink of two." in text
    assert "```{note} On doubling" in text and "{term}`doubling`" in text


def test_a_word_in_bold_that_the_glossary_has_is_a_link(tmp_path):
    cell = "# %% [markdown]\n# A **rank** is **one\n# process** of **many**, and **Rank** again."
    lesson = find("70", write(tmp_path / "lessons_src", "70", cell).parents[1])
    assert "**rank** is **one" in derive(lesson, "page")
    (tmp_path / "book").mkdir()
    (tmp_path / "book/glossary.md").write_text("```{glossary}\nrank\n  x\n\none process\n  y\n```")
    text = "".join(json.loads(derive(lesson, "page"))["cells"][-1]["source"])
    assert text == (
        "A **{term}`rank <rank>`** is **{term}`one process <one process>`** of **many**, "
        "and **{term}`Rank <rank>`** again."
    )
    assert "{term}" not in derive(lesson, "student")


def test_a_form_stands_without_the_line_that_made_it():
    for call in ("predict", "quiz", "what_if"):
        cell = page()[position(f"learn.{call}(")]
        assert "remove-input" in cell.metadata.tags and cell.cell_type == "code"
    assert "remove-input" not in page()[position("learn.measured(")].metadata.get("tags", [])


def test_a_page_says_first_what_of_it_is_within_the_noise():
    def cell(*outputs):
        return {"cell_type": "code", "source": "", "metadata": {}, "outputs": list(outputs)}

    title = {"cell_type": "markdown", "source": "# 21", "metadata": {}}
    ran = {"duration": 1.0, "end_time": "2026-11-29"}
    shown = {
        "data": {"text/plain": [f"{WITHIN} gain of larger buckets: placebo spread 1.50 times."]}
    }
    for outputs, noise in (([{"text": "a gain"}, shown], 1), ([{"text": "a gain"}], 0)):
        page = {"cells": [title, cell(*outputs)], "metadata": {"papermill": dict(ran)}}
        page = json.loads(finish(page, "a key"))
        assert page["metadata"]["dtlib"]["noise"] == noise
        assert len(page["cells"]) == 2 + noise
    page = {"cells": [title, cell(shown)], "metadata": {"papermill": dict(ran)}}
    first, busy, _ = json.loads(finish(page, "a key"))["cells"]
    assert first["source"] == "# 21"
    text = "".join(busy["source"])
    assert text.startswith(":::{warning}\nWhen this page ran, these effects were no larger")
    assert "- gain of larger buckets: placebo spread 1.50 times.\n:::" in text


def test_a_page_keeps_no_path_of_the_machine_and_describes_its_figures():
    figure = {"output_type": "display_data", "data": {"image/png": ""}, "metadata": {}}
    of_labels = {"data": {"text/html": '<svg role="img" aria-label="Figure. loss over step">'}}
    of_its_own = {"data": {"text/html": '<svg role="img" aria-label="A ring of four ranks.">'}}
    table = {"data": {"text/html": ["<table><caption>Steps &amp; ", "sums.</caption>"]}}
    cells = [
        {"cell_type": "markdown", "source": "# A\n\n## Watch it", "metadata": {}},
        {"cell_type": "code", "source": "", "outputs": [figure], "metadata": {"papermill": {}}},
        {
            "cell_type": "code",
            "source": "",
            "outputs": [table, of_labels, of_its_own],
            "metadata": {},
        },
        {"cell_type": "code", "source": "", "outputs": [], "metadata": {"tags": ["unwritten"]}},
    ]
    ran = {"input_path": "/somewhere/x.ipynb", "duration": 12.3, "end_time": "2030-01-02T03:04"}
    text = finish({"cells": cells, "metadata": {"papermill": ran}}, "a key")
    done = json.loads(text)
    assert "somewhere" not in text
    assert done["metadata"] == {
        "dtlib": {"key": "a key", "seconds": 12.3, "on": "2030-01-02", "noise": 0}
    }
    alt = "Figure of the section “Watch it”. The table below it has the numbers: Steps & sums."
    assert len(done["cells"]) == 3  # not what ran for the student's notebook alone
    assert done["cells"][1]["metadata"] == {"mystnb": {"image": {"alt": alt}}}
    drawn = [output["data"]["text/html"] for output in done["cells"][2]["outputs"][1:]]
    assert drawn[0] == f'<svg role="img" aria-label="{html.escape(alt[:-1])}. loss over step">'
    assert drawn[1] == of_its_own["data"]["text/html"]


def test_pages_are_executed_once_and_a_failing_cell_fails_the_build(tmp_path, capsys):
    sources, out = tmp_path / "lessons_src", tmp_path / "out"
    write(sources, "70", "print(6 * 7)")
    write(sources, "71", '# %% tags=["raises-exception"]\n1 / 0')
    assert build_pages(lessons(sources), out) == 0
    assert "0 pages kept, 2 made" in capsys.readouterr().out
    first = {path.name: path.read_bytes() for path in out.glob("*.ipynb")}
    assert sorted(first) == ["70_lesson70.ipynb", "71_lesson71.ipynb"]
    assert b"42" in first["70_lesson70.ipynb"] and b"ZeroDivision" in first["71_lesson71.ipynb"]

    write(sources, "71", "1 / 0")
    write(sources, "72", "print(1)")
    room = (sources / "70_lesson70").rename(sources / "73_lesson70")
    text = (room / "lesson.py").read_text().replace('"70"', '"73"')
    (room / "lesson.py").write_text(text)
    kept = out / "72_lesson72.ipynb"
    assert build_pages(lessons(sources), out) == 1
    assert "ZeroDivisionError: division by zero" in capsys.readouterr().out
    # what failed has no page, what is gone has none either
    assert sorted(p.name for p in out.glob("*.ipynb")) == [kept.name, "73_lesson70.ipynb"]
    assert (out / "run/71_lesson71/71_lesson71.ipynb").exists()

    before = kept.stat().st_mtime_ns
    (sources / "71_lesson71" / "lesson.py").unlink()
    assert build_pages(lessons(sources), out) == 0
    assert kept.stat().st_mtime_ns == before

    kept.unlink()  # a page that nobody asks for is not made
    capsys.readouterr()
    assert build_pages(lessons(sources), out, chosen=[find("73", sources)]) == 0
    assert "1 pages kept, 0 made" in capsys.readouterr().out and not kept.exists()


def test_a_page_is_due_when_its_sidecar_changes(tmp_path):
    path = write(tmp_path, "70", "print(1)", sidecar="notes: {lesson: a}")
    before = key(find("70", tmp_path))
    assert key(find("70", tmp_path)) == before
    path.with_suffix(".yaml").write_text("notes: {lesson: b}")
    assert key(find("70", tmp_path)) != before


def test_a_page_is_due_when_torch_changes_and_not_when_a_linter_does(monkeypatch):
    versions = {"torch": "1", "ruff": "1"}
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["torch>=2.11", RUFF])
    monkeypatch.setattr(importlib.metadata, "version", versions.__getitem__)
    before = key(DEMO)
    versions["ruff"] = "2"
    assert key(DEMO) == before
    versions["torch"] = "2"
    assert key(DEMO) != before


# --- one configuration for two builders ---------------------------------------------------------


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return runpy.run_path(str(BOOK / "conf.py"))


def test_sphinx_gets_what_jupyter_book_gets(conf):
    for name, value in CONFIG["sphinx"]["config"].items():
        assert conf[name] == value, name
    assert conf["html_title"] == CONFIG["title"]
    assert conf["nb_execution_mode"] == CONFIG["execute"]["execute_notebooks"] == "off"
    assert conf["myst_enable_extensions"] == CONFIG["parse"]["myst_enable_extensions"]
    assert set(CONFIG["sphinx"]["local_extensions"]) <= set(conf["extensions"])


def test_sphinx_gets_the_table_of_contents(conf):
    class App:
        def connect(self, event: str, function: Any) -> None:
            self.event, self.function = event, function

    app = App()
    conf["setup"](app)
    source = ["text"]
    app.function(app, "elsewhere", source)
    assert source == ["text"]
    app.function(app, TOC["root"], source)
    assert re.findall(r":caption: (.+)", source[0]) == [part["caption"] for part in TOC["parts"]]
    for chapter in CHAPTERS:
        assert f"\n{chapter['file']}\n" in source[0]


def test_every_page_is_in_the_table_of_contents_once():
    listed = [chapter["file"] for chapter in CHAPTERS]
    there = {str(path.relative_to(BOOK).with_suffix("")) for path in BOOK.glob("*.md")}
    there |= {f"instructor/{path.stem}" for path in (BOOK / "instructor").glob("*.md")}
    lesson_pages = {f"lessons/{one.stem}" for one in lessons()}
    assert sorted(listed) == sorted(there - {TOC["root"]} | lesson_pages)


def test_the_table_of_contents_has_the_lessons_of_each_part(tmp_path):
    for number in ("70", "71", "72"):
        write(tmp_path, number, "print(1)")
    (tmp_path / "path.yaml").write_text(
        "parts:\n- {title: 'Two, at least', lessons: ['72', '70', '79']}\n"
        "- {title: None is here, lessons: ['80']}\n"
    )
    assert yaml.safe_load("parts:\n" + made("toc", tmp_path))["parts"] == [
        {"caption": "Two, at least",
         "chapters": [{"file": "lessons/72_lesson72"}, {"file": "lessons/70_lesson70"}]},
        {"caption": "More lessons", "chapters": [{"file": "lessons/71_lesson71"}]},
    ]  # fmt: skip


def test_what_pages_load_has_one_version():
    package = json.loads((BOOK / "package.json").read_text())["dependencies"]
    lock = json.loads((BOOK / "package-lock.json").read_text())["packages"]
    for name, version in package.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert lock[f"node_modules/{name}"]["version"] == version
        assert lock[f"node_modules/{name}"]["integrity"].startswith("sha512-")


def test_lessons_and_pages_use_words_that_the_glossary_has():
    glossary = (BOOK / "glossary.md").read_text()
    blocks = re.findall(r"```\{glossary\}\n(.*?)```", glossary, re.S)
    words = {line for block in blocks for line in block.splitlines() if re.match(r"\S", line)}
    assert {"rank", "local rank", "world size", "shard", "bucket", "micro-batch"} <= words
    pages = [*BOOK.glob("*.md"), *(ROOT / "lessons_src").glob("*/lesson.py")]
    for path in pages:
        if path.name == "writing_lessons.md":
            continue
        text = re.sub(r"\n# ?", "\n", path.read_text())
        for role in re.findall(r"\{term\}`([^`]+)`", text):
            word = re.sub(r"\s+", " ", role)
            word = word.rpartition("<")[2].rstrip(">")
            assert word in words, f"{path.name}: {word}"


# --- what is missing is told in a sentence ------------------------------------------------------


def test_without_npm_the_build_says_so_and_starts_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, BOOK / "make_site.py"], cwd=tmp_path, text=True, capture_output=True,
        env=os.environ | {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("The website needs npm") and done.stderr.count("\n") == 1


def test_a_builder_without_pages_says_how_to_make_them(tmp_path, monkeypatch):
    from sphinx.errors import ExtensionError

    space = runpy.run_path(str(BOOK / "course_site.py"))
    monkeypatch.setitem(space["_assets"].__globals__, "ASSETS", tmp_path)
    with pytest.raises(ExtensionError, match="run `make book`"):
        space["_assets"](None, None)


def test_a_page_is_due_when_what_it_imports_changes_and_not_when_anything_else_does(tmp_path):
    needed = set(files_of(find("01")))
    package = Path(dtlib.__file__).parent
    assert package / "sim/flops.py" in needed  # imported by the lesson
    assert package / "sim/shapes.py" in needed  # by what it imports
    assert find("01").room / "what_if.py" in needed
    assert package / "cluster/doctor/nodes.py" not in needed
    assert package / "study/scaling.py" not in needed
    assert package / "training/loop.py" in files_of(find("02"))  # through `dtlib.train` alone
    assert package / "strategies/zero.py" in files_of(find("02"))  # found by its place alone
    path = write(tmp_path, "70", "print(1)")
    before = key(find("70", tmp_path))
    (path.parent / "test_lesson.py").write_text("assert True\n")
    assert key(find("70", tmp_path)) == before
    (path.parent / "pictures.py").write_text("from dtlib.cluster.doctor import nodes\n")
    assert key(find("70", tmp_path)) != before
    assert package / "cluster/doctor/nodes.py" in files_of(find("70", tmp_path))
