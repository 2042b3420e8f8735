"""What the website's builder makes itself: links, formulas, the reference, a reader's words."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import api
import cheat_sheet
import lay_sources
import links
import pytest
import yaml

from dtlib import learn
from dtlib.errors import BadInput
from dtlib.learn.source import Cell, lessons, path_of
from dtlib.lessons import reader
from dtlib.lessons.page import page_cells

ROOT = Path(__file__).resolve().parents[2]
LESSONS = lessons(ROOT / "lessons_src")


# --- links ---------------------------------------------------------------------------------------


def test_an_address_for_examples_opens_nothing():
    line = links.of_lesson("07_ranks", "https://example.org/course")
    assert "not published yet" in line and "https" not in line
    assert "`lessons_src/07_ranks/lesson.py`" in line and "[cite](/cite.md)" in line


def test_a_published_course_can_be_opened_and_edited():
    line = links.of_lesson("07_ranks", "https://github.com/them/course.git")
    notebook = "main/notebooks/student/07_ranks.ipynb"
    assert f"https://colab.research.google.com/github/them/course/blob/{notebook}" in line
    assert "https://mybinder.org/v2/gh/them/course/main?urlpath=lab/tree/notebooks/" in line
    assert "https://github.com/them/course/edit/main/lessons_src/07_ranks/lesson.py" in line
    line = links.of_lesson("07_ranks", "https://gitlab.com/a/group/course")
    assert "colab" not in line and "/v2/gl/a%2Fgroup%2Fcourse/main" in line
    line = links.of_lesson("07_ranks", "https://git.lab.edu/course")
    assert "in [the repository](https://git.lab.edu/course)" in line and "binder" not in line


def test_the_links_follow_the_note_of_a_page():
    page: dict[str, Any] = {"cells": [{"id": "title"}, {"id": "note"}, {"id": "text"}], "x": 1}
    made = lay_sources.with_links(page, "07_ranks", "https://example.org/course")
    assert [cell["id"] for cell in made["cells"]] == ["title", "note", "links", "text"]
    assert len(page["cells"]) == 3 and made["x"] == 1


# --- the cheat sheet ------------------------------------------------------------------------------


def test_every_formula_of_the_cheat_sheet_says_what_the_library_computes():
    page = cheat_sheet.page({one.number: one.stem for one in LESSONS})
    parts = yaml.safe_load((ROOT / "book" / "cheat_sheet.yaml").read_text())
    formulas = [one for part in parts for one in part["formulas"]]
    assert page.count("| $") == len(formulas) > 20
    assert all(len(one["cases"]) > 1 for one in formulas)
    for one in formulas:
        assert f"(/lessons/{one['lesson']}_" in page


def test_a_formula_that_differs_stops_the_build():
    wrong = {
        "what": "a shard", "unit": "elements", "formula": "n / N",
        "by": "dtlib.sim.states:share", "is": "f(n, N)", "cases": [{"n": 10, "N": 4}],
    }  # fmt: skip
    with pytest.raises(BadInput, match=r"n / N is 2.5 for n = 10, N = 4, and .* says 3; correct"):
        cheat_sheet.compare(wrong)
    cheat_sheet.compare(wrong | {"formula": "ceil(n / N)"})


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("2 * (N - 1) / N * S", r"\frac{2\,\left(N - 1\right)}{N}\,S"),
        ("3 * 4 * Ψ", r"3 \cdot 4\,\Psi"),
        ("a - (b - c)", r"a - \left(b - c\right)"),
        ("a + (b - c)", r"a + b - c"),
        ("h**2 * MFU", r"h^{2}\,\mathrm{MFU}"),
        ("max(t_load, N)", r"\max\left(t_{\mathrm{load}}, N\right)"),
        ("ceil(log2(N))", r"\left\lceil \log_2 N \right\rceil"),
    ],
)  # fmt: skip
def test_tex_of_a_formula(text, tex):
    assert cheat_sheet.tex(text) == tex


def test_a_formula_without_tex_is_refused():
    with pytest.raises(BadInput, match="has no TeX"):
        cheat_sheet.tex("n // N")


# --- the reference --------------------------------------------------------------------------------


def test_the_reference_has_every_name_that_a_lesson_calls():
    page = api.page()
    for name in learn.__all__:
        assert re.search(rf"^\.\. py:\w+:: {name}\b", page, re.M), name
    for name in ("launch", "train", "ring_all_reduce_time", "model_states", "ring_all_reduce"):
        assert re.search(rf"^\.\. py:function:: {name}\(", page, re.M), name
    assert "ForwardRef" not in page
    # explained once, under the module that comes first
    assert page.count("The input contradicts itself") == 1


# --- the path -------------------------------------------------------------------------------------


def test_previous_and_next_follow_the_path(monkeypatch):
    monkeypatch.chdir(ROOT)
    made = lay_sources.course(LESSONS)
    there = [stop["number"] for stop in made["path"]]
    assert there == [n for n in path_of() if n in {one.number for one in LESSONS}]
    stems = [f"lessons/{stop['stem']}" for stop in made["path"]]
    assert made["around"][stems[0]] == ["lessons", stems[1]]
    assert made["around"][stems[2]] == [stems[1], stems[3]]
    assert made["around"][stems[-1]] == [stems[-2], "lessons"]
    beside = {f"lessons/{one.stem}" for one in LESSONS} - set(stems)
    assert beside and all(made["around"][one] == ["lessons", "lessons"] for one in beside)
    seven = next(one for one in LESSONS if one.number == "07")
    assert made["quizzes"][seven.stem] == len(seven.sidecar["quiz"])


# --- a reader's words -----------------------------------------------------------------------------


def test_what_a_page_shows_is_the_course_s():
    table = "<caption>Yours against the target</caption><th>yours</th><td>your ring</td>"
    outputs = [
        {"text": ["ring: yours, which passed.\n", "A change of yours.\n"]},
        {"data": {"text/html": table, "image/png": "yours"}},
        {"data": {"text/html": '<text x="1">yours</text>'}},
        {"text": "Lesson 07.\nYour answers are kept in .dtlib beside this notebook.\n"},
    ]
    said = json.dumps(reader.shown(outputs))
    assert "ring: the course's, which passed." in said and "A change of yours." in said
    assert "<caption>The course's against the target</caption>" in said
    assert "<th>the course's</th><td>the course's ring</td>" in said
    assert '"image/png": "yours"' in said
    assert ">ours</text>" in said  # as wide as the room that the figure has for it
    assert "Lesson 07.\\n" in said and "Your answers" not in said
    states = {"_esm": "// yours", "text": "You measured 3 µs. What do you expect?"}
    assert reader.shown(states) == {
        "_esm": "// yours", "text": "The course measured 3 µs. What do you expect?",
    }  # fmt: skip


def test_prose_stays_as_it_is_where_it_speaks_of_what_is_the_student_s():
    for text in (
        "functions of yours",
        "ours, if yours has not passed",
        "the loop and the optimizer stay yours",
        "Say that you measured it",
    ):
        assert reader.prose(text) == text
    assert reader.prose("the α and β that\nyou measured") == "the α and β that\nthe course measured"
    assert reader.prose("it would work as yours does") == "it would work as the course's does"


def drawn(code: str) -> bool:
    ast.parse(code)
    cell, *more = page_cells(Cell("code", code), set())
    assert not more
    return cell.metadata.get("mystnb", {}).get("code_prompt_show") == "Show the code of this figure"


def test_code_that_only_draws_is_folded():
    assert drawn("from lesson.pictures import draw_ring\n\ndraw_ring(3)")
    assert drawn("rates = dict(zip(names, list(found.items())))\npictures.draw_rates(rates)")
    assert drawn("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert not drawn("ring = learn.given('ring')\ndraw_ring(ring)")  # it chooses what is drawn
    assert not drawn("seconds = measure(3)\ndraw_times(seconds)")
    assert not drawn("draw_ring(3)\nassert found")
    assert not drawn("x = 3")


# --- pages for people and their assistants --------------------------------------------------------


def test_a_citation_has_the_version_and_the_title_of_the_course():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{cited["version"]}"' in project
    assert cited["title"] == yaml.safe_load((ROOT / "book/_config.yml").read_text())["title"]


def test_the_guide_for_ai_tutors_names_what_is_there():
    text = (ROOT / "AGENTS.md").read_text()
    assert (ROOT / "book/ai_tutors.md").read_text() == "```{include} ../AGENTS.md\n```\n"
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make ([a-z-]+)", text, re.M)
    assert len(named) > 3
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.M), target
    for path in re.findall(r"`([\w*]+/[\w*/.]+|[A-Z]+\.md|\w+\.toml)`", text):
        assert list(ROOT.glob(path.rstrip("/"))), path
    for call in re.findall(r"`learn\.(\w+)", text):
        assert call in learn.__all__, call
