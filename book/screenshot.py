"""Take the pictures of the website and of the class view: python book/screenshot.py [NAME …].

The class view needs the extra `workshop`; all others need the built site (`make book`). All need
playwright and a Chromium (CHROMIUM=path if not in /usr/bin). The pictures of JupyterLab are made by
a test, because a student's way through a lesson leads there (book/reproduce.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from served import served

from dtlib.learn.classroom import PASSED, REFUSED, Member

BOOK = Path(__file__).resolve().parent
SITE = BOOK.parent / "build" / "book" / "html"
LESSON = "lessons/07_ranks_and_collectives.html"
WHAT_IF = ".dtlib-what-if"
# Name, page, size of the window, colours, and which part of the page is looked at.
PICTURES = (
    ("site_front", "index.html", (1280, 800), "light", "h1"),
    ("site_lesson", LESSON, (1280, 800), "light", "h1"),
    ("site_lesson_dark", LESSON, (1280, 800), "dark", WHAT_IF),
    ("site_lesson_phone", LESSON, (390, 844), "light", WHAT_IF),
)
# What the browser of somebody who has read lesson 00 keeps: see _static/course.js.
KEPT = (
    """localStorage.setItem("distributed-training", '{"read": {"00_start_here": "2026-01-01"}}')"""
)
# A class that was made up: for each exercise how many passed, how many tried once, and on which
# mistake each of the others is stuck.
STUDENTS = 15
CLASS = {
    "07/global_mean": (8, 1, ["mean_of_means", "in_place"]),
    "07/pass_right": (4, 3, ["never_waited"]),
    "07/ring_reduce_scatter": (3, 0, ["remainder", "remainder", "chunk", "running_total"]),
    "07/ring_all_reduce": (2, 1, ["half", "added"]),
}
BOARD = 'learn.join("http://192.168.1.20:8733", "K7PM-Q2XW")'  # as on the page about it


def main(names: list[str]) -> None:
    """Make the pictures of these names, by default all."""
    made = pictures()
    if unknown := set(names) - set(made):
        sys.exit(f"There is no picture {min(unknown)}: choose from {', '.join(made)}.")
    if not SITE.exists() and set(names or made) != {"class_view"}:
        sys.exit(f"There is no {SITE}: run `make book` first.")
    program = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, picture in made.items():
            if not names or name in names:
                path = BOOK / "images" / f"{name}.png"
                picture(browser, path)
                print(f"written: {path}")
        browser.close()


def pictures() -> dict[str, Callable[[Any, Path], None]]:
    """By name, what makes a picture with a browser."""
    pages = {
        name: lambda browser, path, how=how: page_of_site(browser, path, *how)
        for name, *how in PICTURES
    }
    return {**pages, "lesson_07_what_if": what_if, "class_view": class_view}


def page_of_site(
    browser: Any, path: Path, place: str, size: tuple[int, int], colours: str, part: str
) -> None:
    """Open a page as a reader does who has read one lesson, and save what the window shows."""
    with opened(browser, place, size, color_scheme=colours) as page:
        prepare(page, part)
        page.screenshot(path=path)


def what_if(browser: Any, path: Path) -> None:
    """The first what-if of lesson 07, and nothing around it."""
    with opened(browser, LESSON, (1280, 800), device_scale_factor=2) as page:
        form = page.locator(WHAT_IF).first
        form.locator("svg").wait_for()
        form.evaluate("form => { form.style.padding = '12px'; }")
        page.wait_for_timeout(500)  # fonts
        form.screenshot(path=path)


def class_view(browser: Any, path: Path) -> None:
    """Lesson 07 in the class that was made up, on a server of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "class") as (url, code, key),
    ):
        members = [Member(Path(folder) / str(student)) for student in range(STUDENTS)]
        for member in members:
            member.folder.mkdir()
            member.join(url, code)
        for exercise, (passed, tried, stuck) in CLASS.items():
            # The first students have passed, the next ones tried once, and the others are stuck.
            verdicts = [[(PASSED, "")]] * passed + [[(REFUSED, "value")]] * tried
            verdicts += [[(REFUSED, key)] * 3 for key in stuck]
            for member, attempts in zip(members, verdicts, strict=False):
                for number, (verdict, mistake) in enumerate(attempts, start=1):
                    member.tell(exercise, number, verdict, mistake)
        while any(member.waiting() for member in members):
            time.sleep(0.1)
        page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme="light")
        page.goto(f"{url}/#{key}")
        page.get_by_label("lesson").select_option("07")
        page.get_by_role("row", name="ring_all_reduce").wait_for()
        page.evaluate("line => { document.getElementById('line').textContent = line; }", BOARD)
        page.screenshot(path=path, full_page=True)
        page.close()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Run `dtlib class serve` for this machine alone: address, join code and instructor's key."""
    words = ["class", "serve", "--address=127.0.0.1", "--port=0", f"--folder={folder}"]
    server = subprocess.Popen(
        [sys.executable, "-m", "dtlib", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        said = "".join(iter(server.stdout.readline, "Ctrl-C ends it.\n"))
        url, _, key = said.rpartition("  http")[2].partition("/#")
        yield f"http{url}", said.partition("  code     ")[2].split()[0], key.split()[0]
    finally:
        server.terminate()
        server.wait(20)


@contextmanager
def opened(browser: Any, place: str, size: tuple[int, int], **settings: Any) -> Iterator[Any]:
    """A page of the site, in a window of this size."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, **settings)
    context.add_init_script(KEPT)
    with served(SITE) as address:
        page = context.new_page()
        page.goto(f"{address}/{place}", wait_until="networkidle")
        yield page
    context.close()


def prepare(page: Any, part: str) -> None:
    """Wait for what is drawn, move a slider that is looked at, and go to the part."""
    form = page.locator(WHAT_IF).first
    form.locator("svg").wait_for()
    if part == WHAT_IF:
        before = form.locator("p[role=status]").inner_text()
        form.locator("input").first.focus()
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "before => document.querySelector('.dtlib-what-if p[role=status]').innerText != before",
            arg=before,
        )
    block = "start" if part == "h1" else "center"
    page.locator(part).first.evaluate(
        "(part, block) => part.scrollIntoView({ block, behavior: 'instant' })", block
    )
    if part == "h1":
        page.evaluate("window.scrollTo({ top: 0, behavior: 'instant' })")
    page.wait_for_timeout(500)  # fonts and the theme's own scrolling


if __name__ == "__main__":
    main(sys.argv[1:])
