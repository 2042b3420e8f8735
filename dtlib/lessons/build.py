"""Derive the student's and the instructor's notebook of a lesson from its one source.

The same source gives the same bytes on every machine: no outputs, cell ids from the cells' text.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from dtlib.learn.source import Cell, Lesson, lessons, solved, stub
from dtlib.learn.translations import languages, translated
from dtlib.lessons.markdown import folded, plain
from dtlib.lessons.page import glossary, note, page_cells
from dtlib.lessons.tables import filled, pages
from dtlib.lessons.teaching import notes
from dtlib.lessons.teaching.exercises import defined
from dtlib.lessons.teaching.wrong_answers import wrong_answers
from dtlib.lessons.validate import validate_all

KINDS = ("student", "instructor")
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def derive(lesson: Lesson, kind: str, *, solve: Collection[int] = (), remark: str = "") -> str:
    """The text of one notebook.

    Parameters
    ----------
    lesson
        The lesson to derive it from.
    kind
        `"student"`: stubs for solutions, and no instructor cells; `"instructor"`: everything;
        `"page"`: for the website, stubs to read, and solutions folded but run.
    solve
        Places in the source of cells whose solution the student's notebook has all the same.
    remark
        Markdown to put below the title.
    """
    cells = [Cell("markdown", _title(lesson)), *([Cell("markdown", remark)] if remark else [])]
    if kind == "instructor":
        cells += notes.note(lesson, "lesson")
    words = glossary(lesson) if kind == "page" else set()
    if kind == "page":
        cells.append(Cell("markdown", note(lesson)))
    for place, cell in enumerate(_cells(lesson), start=1):
        if kind == "page":
            cells += page_cells(cell, words)
            continue
        if kind == "student" and {"instructor", "solution"} & set(cell.tags):
            continue
        whole = kind == "instructor" or place in solve
        ready = Cell(cell.kind, _text(cell, whole=whole), cell.tags)
        cells += _annotated(lesson, cell, ready) if kind == "instructor" else [ready]
    notebook = {
        "cells": _as_json(cells),
        "metadata": {"kernelspec": _KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _cells(lesson: Lesson) -> Iterator[Cell]:
    """All cells except the header, with the tables of lessons that they ask for."""
    for cell in lesson.cells[1:]:
        text = filled(cell.text, lesson) if cell.kind == "markdown" else cell.text
        yield dataclasses.replace(cell, text=text)


def _text(cell: Cell, *, whole: bool) -> str:
    if cell.kind == "markdown":
        text = plain(cell.text)
        return folded("Hint", text) if "hint" in cell.tags else text
    return solved(cell.text) if whole else stub(cell.text)


def _title(lesson: Lesson) -> str:
    header = lesson.header
    say = lesson.words
    facts = say(
        "Reading {read} min, exercises {exercises} min. Needs: {needs}. Builds on: {builds_on}."
    ).format(
        **header["minutes"],
        needs=", ".join(header["needs"]),
        builds_on=", ".join(header["builds_on"] or []) or say("nothing"),
    )
    if lesson.next:
        facts += " " + say("Next on the path: {next}.").format(next=lesson.next)
    after = [f"- {objective}" for objective in header["objectives"]]
    title = f"# {lesson.number} {header['title']}"
    return "\n".join([title, "", say("After this lesson you can"), "", *after, "", facts])


def _annotated(lesson: Lesson, cell: Cell, ready: Cell) -> list[Cell]:
    """A cell of the instructor's notebook between the notes on it."""
    before, after = notes.around(lesson, cell)
    names = defined(cell)
    before += [one for name in names for one in notes.note(lesson, name)]
    after += [one for name in names for one in wrong_answers(lesson, name)]
    return [*before, ready, *after]


def _as_json(cells: list[Cell]) -> list[dict[str, Any]]:
    seen: dict[str, int] = {}
    out = []
    for cell in cells:
        key = f"{cell.kind}\0{cell.text}"
        seen[key] = seen.get(key, 0) + 1
        one: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()[:12],
            "metadata": cell.metadata | ({"tags": cell.tags} if cell.tags else {}),
            "source": cell.text.splitlines(keepends=True),
        }
        if cell.kind == "code":
            one |= {"execution_count": None, "outputs": []}
        out.append(one)
    return out


def build_notebooks(sources: Path, notebooks: Path, *, check: bool = False) -> list[Path]:
    """Write all notebooks and tables of lessons, or with `check` only compare them.

    Parameters
    ----------
    sources, notebooks
        The folders `lessons_src` and `notebooks`.
    check
        Write nothing.

    Returns
    -------
    list of Path
        The notebooks and pages that differ from their sources (with `check`), or that were
        written. They include notebooks that no longer have a source, which are removed unless
        `check`. A notebook that somebody edited or ran is first moved to `kept/` beside it.

    Raises
    ------
    BadInput
        When a source breaks a rule.
    """
    everything = lessons(sources)
    validate_all(everything)
    changed = []
    wanted = _wanted(everything, notebooks)
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            changed.append(path)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                _keep_work(path)
                path.write_text(text, encoding="utf-8")
    for path in sorted(_built(notebooks) - set(wanted)):
        changed.append(path)
        if not check and not _keep_work(path):
            path.unlink()
    for path, text in pages(sources).items():
        if path.read_text(encoding="utf-8") != text:
            changed.append(path)
            if not check:
                path.write_text(text, encoding="utf-8")
    return changed


def _wanted(everything: list[Lesson], notebooks: Path) -> dict[Path, str]:
    """The text of every notebook; those of a translation lie in a folder of its language."""
    places = [(notebooks, lesson) for lesson in everything]
    for lesson in everything:
        places += [(notebooks / name, translated(lesson, name)) for name in languages(lesson)]
    return {
        folder / kind / f"{lesson.stem}.ipynb": derive(lesson, kind)
        for kind in KINDS
        for folder, lesson in places
    }


def _built(notebooks: Path) -> set[Path]:
    """The notebooks of lessons that are there."""
    patterns = [f"{where}{kind}/[0-9][0-9]_*.ipynb" for where in ("", "??/") for kind in KINDS]
    return {path for pattern in patterns for path in notebooks.glob(pattern)}


def _keep_work(path: Path) -> bool:
    """Move a notebook that somebody edited or ran to `kept/`, so that no work is overwritten."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = [
            Cell(one["cell_type"], "".join(one["source"]), one["metadata"].get("tags", []))
            for one in cells
        ]
    except (OSError, ValueError, KeyError):
        return False
    # A notebook as built has no outputs, and its ids follow from the text of its cells.
    if cells == _as_json(texts):
        return False
    number = 1
    while (kept := path.parent / "kept" / f"{path.stem}-{number}.ipynb").exists():
        number += 1
    kept.parent.mkdir(exist_ok=True)
    path.rename(kept)
    print(f"kept your work in {path.name}: {kept}")
    return True
