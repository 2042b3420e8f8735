"""Print the built website as one PDF, with page numbers, contents and bookmarks.

python book/make_pdf.py [page …] [--out build/book/course.pdf], after `make book`; pages are names
such as lessons/07_ranks_and_collectives (default: all of _toc.yml, in its order).

Chromium prints each page, as it does for a reader; nothing is asked of a network.
"""

from __future__ import annotations

import argparse
import html
import importlib.util
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from served import served

from dtlib.errors import BadInput, DtlibError, Unavailable

BOOK = Path(__file__).resolve().parent
BUILD = BOOK.parent / "build" / "book"
SITE = BUILD / "html"
TITLE = yaml.safe_load((BOOK / "_config.yml").read_text("utf-8"))["title"]
SHEET = {
    "format": "A4",
    "margin": {"top": "15mm", "bottom": "18mm", "left": "15mm", "right": "15mm"},
}
# What is for a screen alone; the code of a figure stays folded, solutions are shown.
PRINTED = """
.bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article, .prev-next-area, .bd-footer-article,
.bd-footer, .bd-header, .skip-link, button, .headerlink, .course-links, #pst-skip-link,
.dtlib-guess, #jb-print-toc { display: none !important; }
.bd-article-container, .bd-content, .bd-main
{ max-width: none !important; display: block !important; }
.dtlib-figure svg { min-width: 0 !important; }
.dtlib-figure, .cell_output table, figure, .dtlib-form fieldset { break-inside: avoid; }
h1, h2, h3 { break-after: avoid; }
/* What has just been unfolded would be printed while it fades in. */
* { animation: none !important; transition: none !important; }
pre { white-space: pre-wrap; }
"""


def main() -> int:
    """Write the PDF; the exit code is 2 for a page that is not there, 69 for a missing program."""
    parser = argparse.ArgumentParser(description="Print the built website as one PDF.")
    parser.add_argument("pages", nargs="*", help="pages of the site (default: all, in order)")
    parser.add_argument("--out", type=Path, default=BUILD / "course.pdf")
    args = parser.parse_args()
    try:
        names = args.pages or everything()
        missing = [name for name in names if not (SITE / f"{name}.html").exists()]
        if missing:
            raise BadInput(f"the built site has no {', '.join(missing)}: run `make book` first.")
        with chromium() as browser, served(SITE) as address:
            count = write(names, browser, address, args.out)
    except DtlibError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{args.out}: {count} pages of paper from {len(names)} pages of the site.")
    return 0


def everything() -> list[str]:
    """The pages of the site, in the order of the table of contents."""
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text("utf-8"))
    return [toc["root"], *(one["file"] for part in toc["parts"] for one in part["chapters"])]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that prints, or one sentence about what is missing."""
    named = os.environ.get("CHROMIUM")
    found = map(shutil.which, [named] if named else ["chromium", "google-chrome"])
    program = next(filter(None, found), None)
    lacking = [name for name in ("playwright", "pypdf") if importlib.util.find_spec(name) is None]
    if lacking:
        raise Unavailable(
            f"The PDF needs {' and '.join(lacking)}: pip install -c constraints.txt -e '.[dev]' "
            "in the course's folder."
        )
    if program is None:
        raise Unavailable(
            f"The PDF is printed by Chromium, and there is no {named or 'chromium'}: install it "
            "(apt install chromium), or name it: CHROMIUM=path make pdf."
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser.new_context(color_scheme="light")
        browser.close()


def write(names: list[str], browser: Any, address: str, out: Path) -> int:
    """Print the pages, put contents before them and numbers under them; the sheets' number."""
    from pypdf import PdfReader, PdfWriter

    printed = []
    for name in names:
        title, data = print_page(browser, f"{address}/{name}.html")
        printed.append((title, PdfReader(io.BytesIO(data))))
        print(f"{len(printed)}/{len(names)} {title}: {len(printed[-1][1].pages)}", flush=True)
    # Contents are as long with other numbers in them.
    before = len(contents(browser, [(title, 0) for title, _ in printed]).pages)
    starts, at = [], before + 1
    for _, reader in printed:
        starts.append(at)
        at += len(reader.pages)
    titles = [title for title, _ in printed]
    writer = PdfWriter()
    writer.append(contents(browser, list(zip(titles, starts, strict=True))), import_outline=False)
    for (title, reader), start in zip(printed, starts, strict=True):
        writer.append(reader, import_outline=False)
        writer.add_outline_item(title=title, page_number=start - 1)
    for sheet, number in zip(writer.pages, numbers(browser, len(writer.pages)).pages, strict=True):
        sheet.merge_page(page2=number)
        sheet.compress_content_streams()
    writer.add_metadata({"/Title": TITLE})
    writer.compress_identical_objects()
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")  # what is interrupted here leaves the last PDF whole
    writer.write(part)
    part.replace(out)
    return len(writer.pages)


def print_page(browser: Any, address: str) -> tuple[str, bytes]:
    """The title of a page of the site, and the page as PDF."""
    page = browser.new_page()
    page.goto(address, wait_until="networkidle", timeout=120_000)
    if "/lessons/" in address:
        page.locator(".dtlib-quiz, .dtlib-prediction, .dtlib-what-if").first.wait_for(
            timeout=120_000
        )
    page.add_style_tag(content=PRINTED)
    page.evaluate(
        "document.querySelectorAll('details').forEach((one) => {"
        "  one.open = !one.textContent.trim().startsWith('Show the code'); })"
    )
    title = page.locator("h1").first.evaluate(
        "one => [...one.childNodes].filter((n) => n.nodeName !== 'A')"
        ".map((n) => n.textContent).join('').trim()"
    )
    data = page.pdf(**SHEET, scale=0.85)
    page.close()
    return title, data


def contents(browser: Any, starts: list[tuple[str, int]]) -> Any:
    """The first sheets: the course's title, and on which sheet each page begins."""
    rows = "".join(
        f"<tr><td>{html.escape(title)}</td><td>{number}</td></tr>"
        for title, number in starts
        if title != TITLE
    )
    return sheets(
        browser,
        "<style>body { font: 11pt sans-serif } td:last-child { text-align: right } "
        "table { width: 100% } td { padding: 2pt 0 }</style>"
        f"<h1>{html.escape(TITLE)}</h1><h2>Contents</h2><table>{rows}</table>",
    )


def numbers(browser: Any, count: int) -> Any:
    """Sheets that are empty but for their number, to be laid over others."""
    style = (
        "<style>html, body { margin: 0 } div { height: 255mm; position: relative } "
        "div + div { break-before: page } p { position: absolute; bottom: 0; width: 100%; "
        "margin: 0; text-align: center; font: 9pt sans-serif }</style>"
    )
    markup = style + "".join(f"<div><p>{k}</p></div>" for k in range(1, count + 1))
    return sheets(browser, markup, SHEET | {"margin": {"top": "32mm", "bottom": "8mm"}})


def sheets(browser: Any, markup: str, sheet: dict[str, Any] | None = None) -> Any:
    """A text of our own as PDF."""
    from pypdf import PdfReader

    page = browser.new_page()
    page.set_content(markup)
    data = page.pdf(**(sheet or SHEET))
    page.close()
    return PdfReader(io.BytesIO(data))


if __name__ == "__main__":
    sys.exit(main())
