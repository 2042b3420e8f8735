"""The built website: a page for each lesson, links that lead somewhere, nothing from elsewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from building import ROOT, Built, lesson_times, make_book

from dtlib.learn.source import lessons

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1300)]
STEMS = [lesson.stem for lesson in lessons(ROOT / "lessons_src")]
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
JUPYTER_BOOK = "jupyter-book==1.0.4.post1"


class Page(HTMLParser):
    """What a page points at: links, what it loads, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.sections: set[str] = set()
        self.images_without_alt: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "section" and "id" in values:
            self.sections.add(values["id"])
        if tag == "a" and values.get("href"):
            self.links.add(values["href"])
        # a link element may point at a page (next, search); only what is loaded counts
        if tag in LOADS and values.get("rel", "stylesheet") in ("stylesheet", "preload", "icon"):
            self.loads |= {values[LOADS[tag]]} if values.get(LOADS[tag]) else set()
        if tag == "img" and not values.get("alt"):
            self.images_without_alt.append(values.get("src", ""))


def pages(folder: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in folder.rglob("*.html") if "_static" not in path.parts}


def inside(folder: Path, page: Path, reference: str) -> tuple[Path, str] | None:
    """The file in the site and the anchor that a reference means; None when it leads outside."""
    base = "http://site/" + page.relative_to(folder).as_posix()
    whole = urlsplit(urljoin(base, reference))
    if whole.netloc != "site" or whole.scheme not in ("http", "https"):
        return None
    path = folder / unquote(whole.path).lstrip("/")
    return (path / "index.html" if path.is_dir() else path), unquote(whole.fragment)


def check_lesson_pages(folder: Path) -> None:
    made = sorted(path.stem for path in (folder / "lessons").glob("*.html"))
    assert made == STEMS
    for stem in STEMS:
        assert (folder / "lessons" / f"{stem}.html").stat().st_size > 1000


def check_links(folder: Path) -> None:
    everything = pages(folder)
    assert len(everything) > len(STEMS) + 5
    for path, page in everything.items():
        for reference in page.links | page.loads:
            target = inside(folder, path, reference)
            if target is None:
                continue
            file, anchor = target
            assert file.is_file(), f"{path.relative_to(folder)}: {reference}"
            if anchor and file in everything:
                assert anchor in everything[file].anchors, (
                    f"{path.relative_to(folder)}: {reference}"
                )


def check_nothing_from_elsewhere(folder: Path) -> None:
    for path, page in pages(folder).items():
        outside = {one for one in page.loads if re.match(r"(https?:)?//", one)}
        assert outside == set(), path.relative_to(folder)
    for path in folder.rglob("*.css"):
        found = re.findall(r"""url\(\s*['"]?((?:https?:)?//[^)'"]+)""", path.read_text())
        assert found == [], path.relative_to(folder)


def test_there_is_a_page_for_each_lesson(site):
    check_lesson_pages(site)


def test_every_link_and_anchor_leads_somewhere(site):
    check_links(site)


def test_a_readme_that_is_a_page_leads_to_pages(site):
    links = Page(site / "containers.html").links
    assert {"cluster.html", "kubernetes.html", "node.html"} <= set(links)
    assert not [link for link in links if "README" in link]


def test_no_page_loads_anything_from_another_machine(site):
    check_nothing_from_elsewhere(site)


def test_every_picture_says_what_it_is(site):
    for path, page in pages(site).items():
        assert page.images_without_alt == [], path.relative_to(site)
    for stem in STEMS:
        text = (site / "lessons" / f"{stem}.html").read_text()
        figures = re.findall(r'<svg role="img" aria-label="([^"]*)"', text)
        drawn = (ROOT / "lessons_src" / stem / "lesson.py").read_text().count("plt.show()")
        assert len(figures) >= drawn
        assert all(len(alt.split()) > 4 for alt in figures), stem


def test_a_second_build_runs_no_lesson(built):
    """The build of these tests is a second one itself, where `make book` had run before."""
    kept = f"{len(STEMS)} pages kept, 0 made"
    if kept not in built.said:
        before = lesson_times()
        done = make_book()
        assert done.returncode == 0, done.stdout + done.stderr
        built = Built(done.stdout, before)
    assert kept in built.said
    assert lesson_times() == built.before


@pytest.fixture(scope="module")
def jupyter_book() -> Iterator[Path]:
    """Jupyter Book 1 in an environment of its own, kept in build/ for the next time."""
    folder = ROOT / "build" / "tools" / JUPYTER_BOOK.replace("==", "-")
    command = folder / "bin" / "jupyter-book"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, timeout=120)
        words = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", JUPYTER_BOOK]
        done = subprocess.run(words, capture_output=True, text=True, timeout=400)
        if done.returncode:
            pytest.skip(f"pip cannot bring {JUPYTER_BOOK}: {done.stderr.strip()[-200:]}")
        (folder / "complete").touch()
    yield command


def test_jupyter_book_renders_the_same_sources(site, jupyter_book, tmp_path):
    words = [jupyter_book, "build", "book", "--path-output", tmp_path, "-W", "--keep-going", "-n"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    theirs = tmp_path / "_build" / "html"
    check_lesson_pages(theirs)
    check_nothing_from_elsewhere(theirs)
    here, there = ({p.relative_to(f) for p in pages(f)} for f in (site, theirs))
    assert {p for p in here if p.name != "genindex.html"} <= there
    for stem in STEMS:
        ours, other = (Page(f / "lessons" / f"{stem}.html") for f in (site, theirs))
        assert ours.sections and ours.sections <= other.anchors
