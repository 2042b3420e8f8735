"""Each lesson has a deck, made from what the lesson has anyway."""

import json
import re
import shutil
import subprocess
import sys
from typing import Any

import deck
import make_slides
import pytest

from dtlib.errors import BadInput
from dtlib.learn import predictions
from dtlib.learn.source import Lesson, lessons
from dtlib.lessons.build import derive


def made(lesson: Lesson, outputs: dict[str, str] | None = None) -> list[deck.Slide]:
    """The slides of a page that was not run, with HTML put out by cells that contain a word."""
    page: dict[str, Any] = json.loads(derive(lesson, "page"))
    for cell in page["cells"]:
        for word, shown in (outputs or {}).items():
            if cell["cell_type"] == "code" and word in "".join(cell["source"]):
                cell["outputs"] = [{"output_type": "display_data", "data": {"text/html": shown}}]
    return deck.slides(lesson, page)


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.number)
def test_a_deck_has_question_predictions_exercises_and_take_away(lesson: Lesson) -> None:
    found = made(lesson)
    source = lesson.text
    titles = [slide.title for slide in found]
    assert titles[0] == f"{lesson.number} {lesson.header['title']}"
    assert titles[1] == "The question" and len(found[1].body) > 40
    assert ("# ## Take-away" in source) == (titles[-1] == "Take-away")
    asked = len(re.findall(r"^learn\.predict\(", source, re.M))
    assert titles.count("What do you think?") == asked
    exercises = re.findall(r"^# ## (Exercise .+)", source, re.M)
    assert [title for title in titles if title.startswith("Exercise")] == exercises
    noted = [slide for slide in found if slide.kind == "exercise" and slide.notes]
    assert len(noted) == len(exercises)


def lesson_07() -> Lesson:
    return next(lesson for lesson in lessons() if lesson.number == "07")


def test_figures_and_measured_results_become_slides() -> None:
    figure = '<div class="dtlib-figure">drawn</div>'
    spec = lesson_07().sidecar["predictions"]["alpha"]
    measured = predictions._unpredicted("07.alpha", spec, 50.0, "µs", None)
    assert "no prediction" in measured.markup
    found = made(
        lesson_07(),
        {
            "draw_question()": figure,
            "draw_node()": figure,
            'learn.measured("alpha"': measured.markup,
            "star_time(400e6": "<p>no figure</p>",
        },
    )
    at = {slide.title: slide for slide in found}
    assert figure in at["The question"].body
    assert at["Inside a node and between nodes"].body == figure
    result = next(slide for slide in found if "50 µs" in slide.body)
    assert result.title == "You predicted, we measured"
    assert "smallest" in result.body and "no prediction" not in result.body
    assert "Worked example: the star" not in at


def test_a_cell_with_the_tag_becomes_a_slide() -> None:
    page = json.loads(derive(lesson_07(), "page"))
    ring = next(c for c in page["cells"] if "".join(c["source"]).startswith("## The ring"))
    ring["metadata"]["tags"] = ["slide"]
    slide = next(s for s in deck.slides(lesson_07(), page) if s.title == "The ring")
    assert "\\(N\\)" in slide.body and "<table>" in slide.body and "$" not in slide.body


def test_an_exercise_shows_its_stub_and_keeps_the_notes_for_the_speaker() -> None:
    slide = next(s for s in made(lesson_07()) if s.title.startswith("Exercise 2"))
    assert "your code here" in slide.body and "isend" not in slide.body
    assert "<b>Goes wrong:</b> All ranks send first" in slide.notes
    assert "<b>Shows:</b> <code>draw_collectives(shared)</code>" in made(lesson_07())[0].notes


def test_a_lesson_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="There is no lesson 99: choose from 00, 01"):
        make_slides.choose(["07", "99"])


def test_decks_of_some_lessons_run_no_others(monkeypatch) -> None:
    seen: list[list[str]] = []

    def run(words: list[str]) -> None:
        seen.append(words)
        raise subprocess.CalledProcessError(7, words)

    monkeypatch.setattr(make_slides, "look_around", lambda: "npm")
    monkeypatch.setattr(make_slides, "run", run)
    assert make_slides.main(["00", "07"]) == 7
    assert seen == [[sys.executable, "-m", "dtlib", "lessons", "pages", "00", "07"]]


@pytest.mark.slow
def test_a_deck_in_a_browser_asks_nothing_of_other_machines(tmp_path, monkeypatch) -> None:
    """Its formulas are set, nothing is cut off, and the handout has a page for each slide."""
    from playwright.sync_api import sync_playwright
    from pypdf import PdfReader

    chromium = shutil.which("chromium") or pytest.skip("no chromium")
    make_slides.bring_assets(make_slides.look_around())
    monkeypatch.setattr(make_slides, "OUT", tmp_path)
    page = tmp_path / "page.ipynb"
    page.write_text(derive(lesson_07(), "page"), encoding="utf-8")
    path = make_slides.write_deck(lesson_07(), page, tmp_path)
    make_slides.lay_assets(tmp_path)
    (handout,) = make_slides.handouts([path])
    count = len(made(lesson_07()))
    assert len(PdfReader(handout).pages) == count
    asked, failed = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 720})
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: failed.append(str(error)))
        tab.goto(path.as_uri())
        tab.wait_for_function("window.Reveal?.isReady()", timeout=60_000)
        too_high = tab.evaluate(
            "[...document.querySelectorAll('.slides > section')].map((one, k) => {"
            " Reveal.slide(k); return one.scrollHeight; }).filter(height => height > 720)"
        )
        assert tab.locator("mjx-container").count() > 3
        assert tab.locator(".slides > section").count() == count
        browser.close()
    assert too_high == [] and failed == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
