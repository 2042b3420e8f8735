"""Take the picture of the website that its first page shows: python book/screenshot.py.

Needs the built site (`make book`), playwright and a Chromium (CHROMIUM=path if not in /usr/bin).
"""

from __future__ import annotations

import functools
import http.server
import os
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

BOOK = Path(__file__).resolve().parent
SITE = BOOK.parent / "build" / "book" / "html"
PAGE = "lessons/07_ranks_and_collectives.html"
PICTURE = BOOK / "images" / "site_07_what_if.png"


def main() -> None:
    """Open the page, move a slider of its what-if, and write the picture."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(SITE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 760})
        page.goto(f"http://127.0.0.1:{server.server_port}/{PAGE}", wait_until="networkidle")
        form = page.locator(".dtlib-what-if")
        form.locator("svg").wait_for()
        before = form.locator("p[role=status]").inner_text()
        form.locator("input").first.focus()
        for _ in range(2):
            page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "before => document.querySelector('.dtlib-what-if p[role=status]').innerText != before",
            arg=before,
        )
        form.evaluate("form => form.scrollIntoView({ block: 'end' })")
        page.wait_for_timeout(500)  # the page scrolls smoothly
        page.screenshot(path=PICTURE)
        browser.close()
    server.shutdown()
    print(f"written: {PICTURE}")


if __name__ == "__main__":
    main()
