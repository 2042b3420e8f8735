"""What a reader does on the website besides answering a lesson's forms, in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building import CHROMIUM, ROOT

from dtlib.learn.source import find, lessons, path_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1300),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]
SOURCES = ROOT / "lessons_src"
LESSON = find("07", SOURCES)


@pytest.fixture
def fresh(open_page: Any) -> Iterator[Any]:
    """Open pages as a reader does who has never been here, and leave nothing behind."""

    def go(place: str) -> Any:
        page = open_page(place)
        page.evaluate("COURSE.clear()")
        return page

    yield go
    open_page("cite.html").evaluate("COURSE.clear()")


def test_the_first_page_answers_a_slider(fresh: Any) -> None:
    page = fresh("index.html")
    form = page.locator("#front-what-if")
    assert "make lab" in page.locator(".front-lead pre").inner_text()
    assert page.locator(".front-picture svg").get_attribute("aria-label").startswith("4 ranks")
    before = form.locator("p[role=status]").inner_text()
    form.locator("input[name=stage]").focus()
    page.keyboard.press("ArrowRight")
    # lesson 16 says the same: 16 Ψ / N bytes
    form.get_by_text("stage 3 on 4 ranks: 3.75 weights").wait_for()
    assert "stage 2 on 4 ranks: 15 weights" in before


def test_a_browser_keeps_what_was_read_and_answered_and_forgets_it(fresh: Any) -> None:
    page = fresh(f"lessons/{LESSON.stem}.html")
    path = page.locator(".course-path")
    stop = path.locator(f"a[data-lesson='{LESSON.stem}']")
    assert stop.get_attribute("aria-current") == "page"
    assert "You have read 0 of" in path.inner_text()
    page.locator(".dtlib-quiz").get_by_role("radio").first.check()
    page.locator(".dtlib-quiz").get_by_role("button", name="Answer").first.click()
    path.get_by_text(re.compile("quizzes: [01] right of 1 answered")).wait_for()
    page.locator(".prev-next-area").scroll_into_view_if_needed()
    path.get_by_text("You have read 1 of").wait_for()
    assert stop.get_attribute("aria-label") == "07 Ranks and collectives, read"
    page.reload(wait_until="networkidle")
    assert "You have read 1 of" in path.inner_text()
    current = page.locator(".bd-links a.current", has_text="07 Ranks")
    assert "✓" in current.inner_text()
    page.on("dialog", lambda dialog: dialog.accept())
    path.get_by_role("button", name="Clear my progress").click()
    path.get_by_text("You have read 0 of").wait_for()
    assert "✓" not in current.inner_text()
    assert page.evaluate("localStorage.getItem('distributed-training')") is None


def test_previous_and_next_go_along_the_path(fresh: Any) -> None:
    there = {one.number: one for one in lessons(SOURCES)}
    path = [there[number].stem for number in path_of(SOURCES) if number in there]
    place = path.index(LESSON.stem)
    page = fresh(f"lessons/{LESSON.stem}.html")
    assert page.locator(".right-next").get_attribute("href") == f"{path[place + 1]}.html"
    assert page.locator(".left-prev").get_attribute("href") == f"{path[place - 1]}.html"
    parts = page.locator(".bd-links .caption-text").all_inner_texts()
    assert {"Foundations", "ZeRO", "The cluster"} <= set(parts)


def test_a_figure_fills_the_window_and_escape_closes_it(fresh: Any) -> None:
    page = fresh(f"lessons/{LESSON.stem}.html")
    button = page.get_by_role("button", name="Enlarge the figure").first
    small = page.locator(".dtlib-figure svg").first.bounding_box()
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    large = dialog.locator("svg").bounding_box()
    assert large["width"] > 1.3 * small["width"]
    assert dialog.get_attribute("aria-label")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert button.evaluate("one => one === document.activeElement")
    page.locator(".dtlib-figure svg").first.click()
    dialog.wait_for()
    page.get_by_role("button", name="Close").click()
    dialog.wait_for(state="hidden")


def test_on_a_phone_the_curve_stays_in_sight_of_every_slider(fresh: Any) -> None:
    page = fresh("index.html")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(page.url.replace("index.html", f"lessons/{LESSON.stem}.html"))
    form = page.locator(".dtlib-what-if").first
    curve = form.locator("svg")
    curve.wait_for()
    for slider in form.locator("input[type=range]").all():
        slider.evaluate("one => one.scrollIntoView({ block: 'end', behavior: 'instant' })")
        box, handle = curve.bounding_box(), slider.bounding_box()
        bar = page.locator(".bd-header-article").bounding_box()
        assert box["y"] >= bar["y"] + bar["height"] - 1, "the theme's bar covers it"
        assert box["y"] + box["height"] <= handle["y"], "it covers the slider"
        assert box["x"] > 0 and box["x"] + box["width"] <= 390
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390, "the page scrolls sideways"


def test_a_search_shows_prose(fresh: Any) -> None:
    page = fresh("search.html?q=bucket")
    found = page.locator("#search-results p.context")
    found.first.wait_for()
    page.get_by_text(re.compile("found [0-9]+ pages")).wait_for()
    said = " ".join(found.all_inner_texts())
    assert "bucket" in said
    for other in (
        "\\(",
        "\\frac",
        "import ",
        "Print to PDF",
        "Contents",
        "Show the",
        "Enlarge",
        "#",
    ):
        assert other not in said, other


def test_the_course_is_printed_with_numbers_and_contents(site: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    from pypdf import PdfReader

    out = tmp_path / "course.pdf"
    words = [sys.executable, ROOT / "book/make_pdf.py", "index", "cite", "lessons/00_start_here"]
    done = subprocess.run(
        [*words, "--out", out], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    pdf = PdfReader(out)
    starts = {one.title: pdf.get_destination_page_number(one) for one in pdf.outline}
    assert list(starts)[1:] == ["Cite", "00 Start here"]
    contents = pdf.pages[0].extract_text()
    for title, start in list(starts.items())[1:]:
        assert re.search(rf"{title}\s*{start + 1}\b", contents), contents
        assert title in pdf.pages[start].extract_text()
    for number, sheet in enumerate(pdf.pages, start=1):
        assert sheet.extract_text().split()[-1] == str(number)
    wrong = subprocess.run([*words, "nowhere"], cwd=ROOT, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "the built site has no nowhere: run `make book` first.\n"
