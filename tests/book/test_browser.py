"""The website in a real browser, with no server but one of static files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe
import pytest
from building import ROOT

from dtlib.learn.source import Lesson, lessons
from dtlib.learn.what_if import formula

CHROMIUM = Path("/usr/bin/chromium")
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        # One context: MathJax and MicroPython are fetched and compiled once, for all pages.
        yield chromium.new_context(viewport={"width": 1300, "height": 1000})
        chromium.close()


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Any]:
    """Open a page of the site; at the end nothing was asked of another machine, nothing failed."""
    wrong: list[str] = []
    page = browser.new_page()
    page.set_default_timeout(60_000)
    local = re.compile(rf"{re.escape(address)}/|blob:|data:")
    page.on("request", lambda r: local.match(r.url) or wrong.append(f"asked for {r.url}"))
    page.on("response", lambda r: r.status >= 400 and wrong.append(f"{r.status} for {r.url}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))

    def go(place: str) -> Any:
        page.goto(f"{address}/{place}", wait_until="networkidle")
        return page

    yield go
    page.close()
    assert wrong == []


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
def test_a_lesson_s_page_answers(lesson: Any, request: pytest.FixtureRequest) -> None:
    """All that a reader does in one opened page: the forms know nothing of one another."""
    a_solution_unfolds_by_keyboard(lesson)
    if request.node.callspec.params["lesson"] in WITH_SLIDERS:
        a_slider_moves_its_picture_and_its_numbers(lesson)
    a_quiz_says_why_wrong_is_wrong_and_then_that_right_is_right(lesson)
    a_prediction_is_committed_in_the_page(lesson)


def a_solution_unfolds_by_keyboard(lesson: Any) -> None:
    folded = lesson.locator("details.hide").first
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


def a_prediction_is_committed_in_the_page(lesson: Any) -> None:
    form = lesson.locator(".dtlib-prediction").first
    number = form.locator("input[type=number]")
    if number.count():
        assert number.get_attribute("min") == "0"  # no count, time or size is negative
        number.fill("3")
    else:
        form.locator("input[type=radio]").first.check()
    form.get_by_label("unsure").check()
    form.get_by_role("button", name="Commit").click()
    said = form.get_by_role("status").inner_text()
    assert said.startswith("Committed: ") and "This page keeps it until you leave" in said
    assert form.get_by_role("button", name="Commit").is_disabled()


def test_what_a_cell_shows_follows_a_dark_page(lesson: Any) -> None:
    lesson.evaluate("document.documentElement.dataset.theme = 'dark'")
    outputs = "[...document.querySelectorAll('div.cell_output :is(.text_html, .widget-subarea)')]"
    panels = lesson.evaluate(f"{outputs}.map((one) => getComputedStyle(one).backgroundColor)")
    assert len(panels) > 20
    assert set(panels) == {"rgba(0, 0, 0, 0)"}


def test_a_word_leads_to_the_glossary(lesson: Any) -> None:
    lesson.locator("a.reference[href*='glossary.html#term-']").first.click()
    lesson.wait_for_url("**/glossary.html#term-*")


@pytest.fixture(scope="module")
def axe_core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return axe.script(tmp_path_factory.mktemp("axe"))


@pytest.mark.parametrize("place", ["index.html", f"lessons/{LESSON.stem}.html", "glossary.html"])
def test_axe_finds_nothing_serious(open_page: Any, axe_core: Path, place: str) -> None:
    page = open_page(place)
    if place.startswith("lessons"):
        page.locator(".dtlib-what-if svg").wait_for()
        for summary in page.locator("details summary").all():
            summary.click()
    assert axe.serious(page, axe_core) == []
