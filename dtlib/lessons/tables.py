"""Generate what pages say about lessons, strategies, durations and the course's address.

A page has a table between `<!-- lessons: NAME -->` and `<!-- lessons: end -->`; a lesson's own
Markdown asks for one with `{{lessons: NAME}}`. No table names a lesson that is not in the folder.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dtlib import strategies
from dtlib.errors import BadInput
from dtlib.learn.source import Lesson, course, lessons, path_of
from dtlib.lessons.teaching import sheets
from dtlib.lessons.teaching.notes import manual
from dtlib.lessons.teaching.plans import timetable

PAGES = (
    "README.md", "CONTRIBUTING.md", "book/index.md", "book/set_up.md", "book/_toc.yml",
    "book/instructor/*.md",
)  # fmt: skip
# In YAML a mark is a comment.
_BLOCK = re.compile(r"(<!-- lessons: (\w+) -->\n).*?((?:# )?<!-- lessons: end -->)", re.S)
_ASKED = re.compile(r"\{\{lessons: (\w+)\}\}")


def pages(sources: Path) -> dict[Path, str]:
    """The text that each page of the project should have.

    Parameters
    ----------
    sources
        The folder `lessons_src`; the pages are beside it.

    Returns
    -------
    dict
        Page to text.
    """
    found = {}
    for pattern in PAGES:
        for page in sorted(sources.parent.glob(pattern)):
            text = page.read_text(encoding="utf-8")
            found[page] = _BLOCK.sub(lambda m: f"{m[1]}{made(m[2], sources)}\n{m[3]}", text)
    return found


def filled(text: str, lesson: Lesson) -> str:
    """A lesson's Markdown with the tables that it asks for; routes in the lesson's language."""
    sources = lesson.room.parent

    def table(match: re.Match[str]) -> str:
        routes = match[1] == "routes"
        return _routes(sources, lesson.words) if routes else made(match[1], sources)

    return _ASKED.sub(table, text)


def made(name: str, sources: Path) -> str:
    """One table as Markdown.

    Raises `BadInput` when there is no table of that name.
    """
    if name not in _TABLES:
        raise BadInput(f"there is no table of lessons {name!r}; choose from {', '.join(_TABLES)}.")
    return _TABLES[name](sources)


def _table(sources: Path) -> str:
    """README's table: one row per lesson."""
    rows = ["| | title | what you do | minutes | needs |", "| --- | --- | --- | --- | --- |"]
    for lesson in lessons(sources):
        header = lesson.header
        link = f"[{lesson.number}](notebooks/student/{lesson.stem}.ipynb)"
        needs = ", ".join(header["needs"])
        minutes = sum(header["minutes"].values())
        rows.append(f"| {link} | {header['title']} | {header['does']} | {minutes} | {needs} |")
    return "\n".join(rows)


def _path(sources: Path) -> str:
    """The path through the lessons that exist."""
    there = _there(sources)
    return " → ".join(number for number in path_of(sources) if number in there)


def _parts(sources: Path) -> str:
    """One row per part of the course, with the titles of its lessons."""
    there = _there(sources)
    rows = ["| part | lessons |", "| --- | --- |"]
    for part in course(sources).get("parts") or []:
        own = [there[number] for number in part["lessons"] if number in there]
        if own:
            titles = "; ".join(f"{one.number} {one.header['title']}" for one in own)
            rows.append(f"| {part['title']} | {titles} |")
    return "\n".join(rows)


def _routes(sources: Path, say: Callable[[str], str] = str) -> str:
    """One row per route through the course; stops that do not exist yet are left out."""
    there = _there(sources)
    rows = [f"| {say('you have')} | {say('go')} |", "| --- | --- |"]
    for route in course(sources).get("routes") or []:
        rows.append(f"| {say(route['have'])} | {_route(route, there, say)} |")
    return "\n".join(rows)


def _route(route: dict[str, Any], there: dict[str, Lesson], say: Callable[[str], str]) -> str:
    stops = [number for number in route.get("stops") or {} if number in there]
    days = [[number for number in day if number in there] for day in route.get("days") or []]
    parts = [say(route.get("about", ""))]
    if stops:
        words = ", ".join(say(route["stops"][number]) for number in stops)
        parts.append(f"{_numbers(stops, there)}: {words}")
    if days:
        parts.append(" · ".join(_numbers(day, there) for day in days if day))
    return ": ".join(filter(None, parts))


def _numbers(numbers: list[str], there: dict[str, Lesson]) -> str:
    """The lessons, and the sum of the minutes in their headers."""
    minutes = sum(sum(there[number].header["minutes"].values()) for number in numbers)
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{', '.join(numbers)} ({hours}{minutes % 60} min)"


def _needs(sources: Path) -> str:
    """One row per kind of machine: which lessons run completely there."""
    kinds: dict[str, list[str]] = {}
    for lesson in lessons(sources):
        kinds.setdefault(", ".join(lesson.header["needs"]), []).append(lesson.number)
    rows = ["| needs | lessons |", "| --- | --- |"]
    return "\n".join([*rows, *(f"| {kind} | {', '.join(own)} |" for kind, own in kinds.items())])


def _there(sources: Path) -> dict[str, Lesson]:
    return {lesson.number: lesson for lesson in lessons(sources)}


def _strategies(sources: Path) -> str:
    """The names that `--strategy` takes."""
    return ", ".join(strategies.names())


def _address(sources: Path) -> str:
    """The first step: how to clone the course."""
    project = tomllib.loads((sources.parent / "pyproject.toml").read_text("utf-8"))["project"]
    url = urlsplit(project["urls"]["Repository"])
    folder = Path(url.path).stem
    text = f"```bash\ngit clone {url.geturl()}\ncd {folder}\n```"
    if url.hostname == "example.org":
        text += (
            "\n\nThe course is not published yet, so this address is a placeholder: use the"
            f" one that you\nwere given, and end the line with `{folder}`."
        )
    return text


def _start(sources: Path) -> str:
    """A student's two commands."""
    return _address(sources).replace("\n```", "\nmake lab\n```", 1)


def _toc(sources: Path) -> str:
    """The lessons of each part, as parts of the website's table of contents."""
    there = _there(sources)
    parts = [(part["title"], part["lessons"]) for part in course(sources).get("parts") or []]
    listed = {number for _, numbers in parts for number in numbers}
    parts.append(("More lessons", [number for number in there if number not in listed]))
    lines = []
    for title, numbers in parts:
        if own := [there[number] for number in numbers if number in there]:
            lines += [f"  - caption: {json.dumps(title, ensure_ascii=False)}", "    chapters:"]
            lines += [f"      - file: lessons/{one.stem}" for one in own]
    return "\n".join(lines)


def _durations(sources: Path) -> str:
    """One row per `make` command: how long it took, and what it did in that time."""
    import yaml

    told = yaml.safe_load((sources.parent / "book" / "durations.yaml").read_text("utf-8"))
    rows = ["| | time | what it does | measured at |", "| --- | --- | --- | --- |"]
    for name, one in told["commands"].items():
        rows.append(
            f"| `make {name}` | {one['seconds'] / 60:.0f} min | {one['note']} | {one['at']} |"
        )
    return "\n".join([*rows, "", f"Measured on {told['machine']}."])


_TABLES: dict[str, Callable[[Path], str]] = {
    "table": _table, "path": _path, "parts": _parts, "routes": _routes, "strategies": _strategies,
    "address": _address, "start": _start, "toc": _toc, "durations": _durations, "manual": manual,
    "needs": _needs, "timetable_day": partial(timetable, "stops"),
    "timetable_days": partial(timetable, "days"), "timetable_weeks": partial(timetable, "weeks"),
    "test_before": partial(sheets.questions, 0), "test_after": partial(sheets.questions, 1),
    "test_answers": sheets.answers,
}  # fmt: skip
