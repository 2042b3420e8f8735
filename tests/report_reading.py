"""A page of `dtlib report` as a test reads it."""

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

from dtlib.study.report import Page


class Reader(HTMLParser):
    """Every element with its attributes, the text, and what was not closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.wrong = "", []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(path: Path) -> Reader:
    text = path.read_text(encoding="utf-8")
    page = Reader(text)
    assert not page.wrong
    # no other machine is asked, and nothing runs
    assert not re.search(r"(?:src|href)=\"(?!data:image/svg)", text) and "<script" not in text
    assert all(image["alt"] for image in page.all("img"))
    assert len(page.all("table")) == len(page.all("caption"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert page.all("html") == [{"lang": "en"}]
    return page


def rows_of(page: Page, heading: str) -> list[tuple[str, ...]]:
    section = next(one for one in page.sections if one.heading == heading)
    return [tuple(row) for table in section.tables for row in table.rows]
