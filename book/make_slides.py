"""Make a deck of slides for each lesson: python book/make_slides.py [NN …] [--no-pdf].

1. `dtlib lessons pages` runs those of the lessons that changed (build/book/lessons), as for the
   website.
2. npm brings reveal.js and MathJax, at the versions of package-lock.json (build/book/assets).
3. build/book/slides gets a deck for each lesson, with the instructor's notes as speaker notes (key
   S), and, where there is a Chromium, a handout: the slides, without the notes, as a PDF file.
"""

from __future__ import annotations

import argparse
import html
import json
import shutil
import subprocess
import sys
from pathlib import Path

from deck import slides
from jinja2 import Environment, FileSystemLoader
from make_pdf import chromium
from make_site import ASSETS, BOOK, BUILD, bring_assets, look_around, run
from served import served

from dtlib.errors import BadInput, DtlibError, Unavailable
from dtlib.learn.source import Lesson, lessons

OUT = BUILD / "slides"


def main(words: list[str] | None = None) -> int:
    """Make the decks; the exit code is that of the first step that fails."""
    parser = argparse.ArgumentParser(description="Make a deck of slides for each lesson.")
    parser.add_argument("lessons", nargs="*", metavar="NN", help="numbers (default: all lessons)")
    parser.add_argument("--no-pdf", action="store_true", help="no handouts")
    asked = parser.parse_args(words)
    try:
        chosen = choose(asked.lessons)
        npm = look_around()
        run([sys.executable, "-m", "dtlib", "lessons", "pages", *asked.lessons])
        bring_assets(npm)
        for lesson in chosen:
            write_deck(lesson, BUILD / "lessons" / f"{lesson.stem}.ipynb", OUT)
        lay_assets(OUT)
        (OUT / "index.html").write_text(contents(OUT), encoding="utf-8")
        made = [] if asked.no_pdf else handouts([OUT / f"{one.stem}.html" for one in chosen])
    except DtlibError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except subprocess.CalledProcessError as error:
        return error.returncode
    print(f"{len(chosen)} decks and {len(made)} handouts are in build/book/slides; to show them:")
    print(f"{sys.executable} -m http.server --directory build/book/slides")
    return 0


def choose(numbers: list[str]) -> list[Lesson]:
    """Find the lessons of these numbers; without numbers, all."""
    there = {lesson.number: lesson for lesson in lessons()}
    unknown = [number for number in numbers if number not in there]
    if unknown:
        raise BadInput(f"There is no lesson {unknown[0]}: choose from {', '.join(there)}.")
    return [there[number] for number in numbers] or list(there.values())


def write_deck(lesson: Lesson, page: Path, out: Path) -> Path:
    """Write a lesson's deck and return its path."""
    made = slides(lesson, json.loads(page.read_text(encoding="utf-8")))
    template = Environment(loader=FileSystemLoader(BOOK / "slides")).get_template("deck.html.j2")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{lesson.stem}.html"
    title = html.escape(f"{lesson.number} {lesson.header['title']}")
    path.write_text(template.render(title=title, slides=made), encoding="utf-8")
    return path


def lay_assets(out: Path) -> None:
    """Copy beside the decks what they load."""
    target = out / "assets"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ASSETS / "reveal", target)
    shutil.copytree(ASSETS / "mathjax", target / "mathjax")
    shutil.copy(BOOK / "slides" / "slides.css", target)


def contents(out: Path) -> str:
    """A page that links to every deck and handout there is."""
    rows = []
    for deck in sorted(out.glob("[0-9]*.html")):
        handout = deck.with_suffix(".pdf")
        more = f' (<a href="{handout.name}">handout</a>)' if handout.exists() else ""
        rows.append(f'<li><a href="{deck.name}">{deck.stem.replace("_", " ")}</a>{more}</li>')
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Slides</title>'
    keys = (
        "<p>Keys: arrows for the next slide, S for the speaker's notes, F for the full screen.</p>"
    )
    return f"{head}<h1>Slides</h1>{keys}<ul>{''.join(rows)}</ul></html>\n"


def handouts(decks: list[Path]) -> list[Path]:
    """Print decks to PDF files beside them; without a Chromium, say so and print none."""
    made = [deck.with_suffix(".pdf") for deck in decks]
    try:
        with chromium() as browser, served(OUT) as address:
            page = browser.new_page()
            for deck, path in zip(decks, made, strict=True):
                page.goto(f"{address}/{deck.name}?print-pdf")
                page.wait_for_function("window.deckIsReady", timeout=120_000)
                page.pdf(path=path, prefer_css_page_size=True, print_background=True)
    except Unavailable as error:
        print(f"No handouts: {error}")
        return []
    (OUT / "index.html").write_text(contents(OUT), encoding="utf-8")
    return made


if __name__ == "__main__":
    sys.exit(main())
