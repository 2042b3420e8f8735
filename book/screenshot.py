"""Take the pictures of the website that README shows: python book/screenshot.py.

Needs the built site (`make book`), playwright and a Chromium (CHROMIUM=path if not in /usr/bin).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from served import served

BOOK = Path(__file__).resolve().parent
SITE = BOOK.parent / "build" / "book" / "html"
LESSON = "lessons/07_ranks_and_collectives.html"
# Name, page, size of the window, colours, and which part of the page is looked at.
PICTURES = (
    ("site_front", "index.html", (1280, 800), "light", "h1"),
    ("site_lesson", LESSON, (1280, 800), "light", "h1"),
    ("site_lesson_dark", LESSON, (1280, 800), "dark", ".dtlib-what-if"),
    ("site_lesson_phone", LESSON, (390, 844), "light", ".dtlib-what-if"),
)
# What the browser of somebody who has read lesson 00 keeps: see _static/course.js.
KEPT = (
    """localStorage.setItem("distributed-training", '{"read": {"00_start_here": "2026-01-01"}}')"""
)


def main() -> None:
    """Open each page as a reader does who has read one lesson, and write its picture."""
    program = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with served(SITE) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, place, (width, height), colours, part in PICTURES:
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=colours
            )
            context.add_init_script(KEPT)
            page = context.new_page()
            page.goto(f"{address}/{place}", wait_until="networkidle")
            prepare(page, part)
            path = BOOK / "images" / f"{name}.png"
            page.screenshot(path=path)
            context.close()
            print(f"written: {path}")
        browser.close()


def prepare(page: Any, part: str) -> None:
    """Wait for what is drawn, move a slider that is looked at, and go to the part."""
    form = page.locator(".dtlib-what-if").first
    form.locator("svg").wait_for()
    if part == ".dtlib-what-if":
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
    main()
