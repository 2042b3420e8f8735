"""The website in a real browser, with no server but one of static files."""

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import axe
import pytest
from building import CHROMIUM, ROOT

from dtlib.learn.source import Lesson, lessons
from dtlib.learn.what_if import formula

LESSONS = lessons(ROOT / "lessons_src")
LESSON = next(one for one in LESSONS if one.number == "07")
WITH_SLIDERS = [
    one
    for one in LESSONS
    if any(not entry.get("kernel") for entry in (one.sidecar.get("what_if") or {}).values())
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1300),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]


@pytest.fixture
def lesson(open_page: Any, request: pytest.FixtureRequest) -> Any:
    """The page of a lesson (by default 07), its forms drawn."""
    page = open_page(f"lessons/{getattr(request, 'param', LESSON).stem}.html")
    page.locator(".dtlib-quiz").wait_for()
    for form in page.locator(".dtlib-what-if").all():
        form.locator("svg").wait_for()
    return page


def every(chosen: list[Lesson]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lesson", chosen, indirect=True, ids=lambda one: one.number)


def saved(page: Any, name: str) -> list[dict[str, Any]]:
    """The states of those widgets, as the page carries them, that have something called `name`."""
    text = page.locator("script[type='application/vnd.jupyter.widget-state+json']").inner_text()
    states = [model["state"] for model in json.loads(text)["state"].values()]
    return [state for state in states if name in state]


def test_every_page_opens_and_asks_no_other_machine(open_page: Any, site: Path) -> None:
    """Those of lessons are opened below, and looked at in the same way."""
    for path in sorted(site.rglob("*.html")):
        if not {"_static", "lessons"} & set(path.relative_to(site).parts):
            open_page(path.relative_to(site).as_posix())


def test_formulas_are_set(lesson: Any) -> None:
    formulas = lesson.locator("mjx-container")
    formulas.first.wait_for()
    assert formulas.count() > 10
    # its own fonts have come: without them glyphs overlap
    lesson.wait_for_function(
        "[...document.fonts].some((f) => /^MJX/.test(f.family) && f.status == 'loaded')"
    )


@every(LESSONS)
def test_a_lesson_s_page_answers(lesson: Any, core: Path, request: pytest.FixtureRequest) -> None:
    """All that a reader does in one opened page: the forms know nothing of one another."""
    a_solution_unfolds_by_keyboard(lesson)
    if request.node.callspec.params["lesson"] in WITH_SLIDERS:
        a_slider_moves_its_picture_and_its_numbers(lesson)
    a_quiz_says_why_wrong_is_wrong_and_then_that_right_is_right(lesson)
    a_prediction_is_kept_and_shown_beside_what_was_measured(lesson)
    one = request.node.callspec.params["lesson"]
    if one is LESSON or os.environ.get("DTLIB_EVERY"):  # it takes longer than all the rest
        nothing_is_serious(lesson, core)


def a_solution_unfolds_by_keyboard(lesson: Any) -> None:
    folded = lesson.locator("details.hide").filter(has_text="Show the solution").first
    summary, solution = folded.locator("summary"), folded.locator("pre").first
    assert summary.inner_text() == "Show the solution"
    assert summary.get_attribute("aria-label") is None
    assert not solution.is_visible()
    summary.focus()
    lesson.keyboard.press("Enter")
    solution.wait_for(state="visible")
    lesson.keyboard.press("Enter")
    solution.wait_for(state="hidden")


def a_slider_moves_its_picture_and_its_numbers(lesson: Any) -> None:
    state = saved(lesson, "settings")[0]
    one, entry = next(
        (one, entry)
        for one in WITH_SLIDERS
        for entry in one.sidecar["what_if"].values()
        if entry["title"] == state["spec"]["title"]
    )
    module, name = formula(one, entry)
    function = getattr(module, name)
    form = lesson.locator(".dtlib-what-if").first
    first = entry["inputs"][0]
    picture, numbers = form.locator("svg").inner_html(), form.locator("table").inner_html()
    curves = form.locator("table th[scope=col]")
    names = curves.all_text_contents()
    form.locator(f"input[name={first['name']}]").focus()
    lesson.keyboard.press("ArrowRight")
    moved = state["settings"] | {first["name"]: first["value"] + first["step"]}
    # MicroPython in the page says what Python says here
    form.get_by_text(function(**moved)["says"]).wait_for()
    assert form.locator("svg").inner_html() != picture
    # in the same order, and so with the same colours and dashes
    assert (
        curves.all_text_contents()
        == names
        == [function(**moved)["x"], *function(**moved)["curves"]]
    )
    second = entry["inputs"][1]
    form.locator(f"input[name={second['name']}]").focus()
    lesson.keyboard.press("ArrowRight")
    moved[second["name"]] = second["value"] + second["step"]
    form.get_by_text(function(**moved)["says"]).wait_for()
    assert form.locator("table").inner_html() != numbers


def a_quiz_says_why_wrong_is_wrong_and_then_that_right_is_right(lesson: Any) -> None:
    asked = saved(lesson, "questions")[0]["questions"]
    place, item = next((i, one) for i, one in enumerate(asked) if len(one["variants"]) > 1)
    section = lesson.locator(".dtlib-quiz > section").nth(place)
    for turn, right in ((0, False), (1, True)):
        options = item["variants"][turn]["options"]
        choice = next(i for i, option in enumerate(options) if option["right"] is right)
        section.locator("input[type=radio]").nth(choice).focus()
        lesson.keyboard.press("Space")
        section.get_by_role("button", name="Answer").click()
        status = section.get_by_role("status")
        status.get_by_text("Right." if right else "Not this one.").wait_for()
        why = re.sub(r"[`*]", "", options[choice]["why"])
        assert why in re.sub(r"\s+", " ", status.inner_text())
        if not right:
            section.get_by_role("button", name="Try again").click()


def a_prediction_is_kept_and_shown_beside_what_was_measured(lesson: Any) -> None:
    form = lesson.locator(".dtlib-prediction").first
    number = form.locator("input[type=number]")
    if number.count():
        assert number.get_attribute("min") == "0"  # no count, time or size is negative
        number.fill("3")
    else:
        form.locator("input[type=radio]").first.check()
    form.get_by_label("unsure").check()
    asked = form.locator("legend").first.inner_text()
    specs = [state["spec"] for state in saved(lesson, "answer")]
    place = next(s["place"] for s in specs if re.sub(r"[`*]", "", s["question"]) == asked)
    result = lesson.locator(f".dtlib-measured[data-prediction='{place}']")
    assert "You have committed no prediction" in result.inner_text()
    form.get_by_role("button", name="Commit").click()
    said = form.get_by_role("status").inner_text()
    assert said.startswith("Committed: ") and "This browser keeps it" in said
    assert "You predicted (unsure): " in result.inner_text()
    lesson.reload(wait_until="networkidle")
    form.get_by_text("Committed: ").wait_for()
    assert form.get_by_role("button", name="Commit").is_disabled()
    assert "You predicted (unsure): " in result.inner_text()


def test_what_a_cell_shows_follows_a_dark_page(lesson: Any) -> None:
    lesson.evaluate("document.documentElement.dataset.theme = 'dark'")
    outputs = "[...document.querySelectorAll('div.cell_output :is(.text_html, .widget-subarea)')]"
    panels = lesson.evaluate(f"{outputs}.map((one) => getComputedStyle(one).backgroundColor)")
    assert len(panels) > 20
    assert set(panels) == {"rgba(0, 0, 0, 0)"}


def test_a_word_leads_to_the_glossary(lesson: Any) -> None:
    lesson.locator("a.reference[href*='glossary.html#term-']").first.click()
    lesson.wait_for_url("**/glossary.html#term-*")


@pytest.mark.parametrize("name", ["test_before", "test_after"])
def test_a_workshop_s_test_is_printed_on_one_sheet(open_page: Any, name: str) -> None:
    """With the margins that Chromium gives a sheet."""
    from pypdf import PdfReader

    page = open_page(f"instructor/{name}.html")
    for paper, margin in (("A4", "1cm"), ("Letter", "0.4in")):
        margins = dict.fromkeys(("top", "bottom", "left", "right"), margin)
        sheets = PdfReader(io.BytesIO(page.pdf(format=paper, margin=margins))).pages
        assert len(sheets) == 1, paper


@pytest.mark.parametrize("place", ["index.html", "glossary.html", "cheat_sheet.html"])
def test_axe_finds_nothing_serious(open_page: Any, core: Path, place: str) -> None:
    nothing_is_serious(open_page(place), core)


def nothing_is_serious(page: Any, core: Path) -> None:
    """Neither in light nor in dark, with all that is folded unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.add_style_tag(content="* { transition: none !important; }")  # colours are there at once
    for scheme, only in (("light", None), ("dark", ["color-contrast"])):
        page.evaluate("scheme => { document.documentElement.dataset.theme = scheme; }", scheme)
        assert axe.serious(page, core, only) == [], scheme
