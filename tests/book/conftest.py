"""The website, built once for all tests of this folder, and served as static files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe
import pytest
from building import CHROMIUM, ROOT, Built, lesson_times, make_book
from served import served


@pytest.fixture(scope="session")
def built() -> Built:
    """The website, built here; its pages are executed where no earlier build has done that."""
    before = lesson_times()
    done = make_book()
    assert done.returncode == 0, done.stdout + done.stderr
    return Built(done.stdout, before)


@pytest.fixture(scope="session")
def site(built: Built) -> Path:
    """The folder of the built website."""
    return ROOT / "build" / "book" / "html"


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the site is served by nothing but a server of static files."""
    with served(site) as place:
        yield place


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


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of axe-core."""
    return axe.script(tmp_path_factory.mktemp("axe"))
