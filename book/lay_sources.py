"""What both builders read beside the written pages: book/lessons, and what book/generated has.

Everything here is made from the executed lessons, from path.yaml, and from dtlib itself.
"""

from __future__ import annotations

import itertools
import json
import platform
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import api
import cheat_sheet
import links

from dtlib.errors import BadInput
from dtlib.learn.source import Lesson, lessons, path_of

BOOK = Path(__file__).resolve().parent
BUILD = BOOK.parent / "build" / "book"
# The what-if of the first page, and which of its sliders stand there.
FRONT = ("16_zero_from_scratch", "zero_stages", ("stage", "ranks_power"))
WHAT_IF = """\
<div id="front-what-if"><p>{says}</p></div>
<script type="application/json" id="front-what-if-state">{state}</script>
<script type="module">
import what_if from "./_static/what_if.mjs";
const state = JSON.parse(document.getElementById("front-what-if-state").textContent);
const watched = [];
const model = {{
  get: (name) => state[name],
  set(name, value) {{
    state[name] = value;
    if (name === "result") watched.forEach((call) => call());
  }},
  on: (name, call) => name === "change:result" && watched.push(call),
  save_changes() {{}},
}};
const el = document.getElementById("front-what-if");
el.replaceChildren();
what_if.render({{ model, el }});
</script>
"""


def lay_sources() -> None:
    """Copy the executed lessons into book/lessons, and write book/generated.

    Raises `BadInput` for a lesson without an executed page.
    """
    everything = lessons()
    made = {one.stem: BUILD / "lessons" / f"{one.stem}.ipynb" for one in everything}
    if missing := [stem for stem, path in made.items() if not path.exists()]:
        raise BadInput(
            f"no executed page is there for {', '.join(missing)}: run `make book` without --kept."
        )
    folder, generated = BOOK / "lessons", BOOK / "generated"
    for one in (folder, generated):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir()
    pages = {stem: json.loads(path.read_text("utf-8")) for stem, path in made.items()}
    for stem, page in pages.items():
        text = json.dumps(with_links(page, stem, address()), ensure_ascii=False)
        (folder / f"{stem}.ipynb").write_text(text, encoding="utf-8")
    texts = {
        "lessons.md": lesson_table(everything, pages),
        "course.json": json.dumps(course(everything), ensure_ascii=False),
        "what_if.html": front_what_if(pages),
        "picture.html": front_picture(pages),
        "cheat_sheet.md": cheat_sheet.page({one.number: one.stem for one in everything}),
        "api.md": api.page(),
    }
    for name, text in texts.items():
        (generated / name).write_text(text, encoding="utf-8")
    shutil.copy(machine(), generated)


def address() -> str:
    """The course's address, from pyproject.toml."""
    text = (BOOK.parent / "pyproject.toml").read_text("utf-8")
    return tomllib.loads(text)["project"]["urls"]["Repository"]


def with_links(page: dict[str, Any], stem: str, url: str) -> dict[str, Any]:
    """A lesson's page whose second cell, its note, is followed by the lesson's links."""
    line = {
        "cell_type": "markdown", "id": "links", "metadata": {},
        "source": f":::{{div}} course-links\n{links.of_lesson(stem, url)}\n:::",
    }  # fmt: skip
    return page | {"cells": [*page["cells"][:2], line, *page["cells"][2:]]}


def lesson_table(everything: list[Lesson], pages: dict[str, dict[str, Any]]) -> str:
    """A row for each lesson: its page, what its header says, and how long it ran here."""
    head = ["", "lesson", "minutes", "needs", "ran in", "on", "effects within the noise"]
    rows = ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head))]
    for lesson in everything:
        header = lesson.header
        ran = pages[lesson.stem]["metadata"]["dtlib"]
        link = f"[{header['title']}](/lessons/{lesson.stem}.ipynb)"
        minutes = sum(header["minutes"].values())
        needs = ", ".join(header["needs"])
        rows.append(
            f"| {lesson.number} | {link} | {minutes} | {needs} | {ran['seconds']:.0f} s "
            f"| {ran['on']} | {ran.get('noise') or ''} |"
        )
    return "\n".join(rows) + "\n"


def course(everything: list[Lesson]) -> dict[str, Any]:
    """The path, each lesson's neighbours on it, and how many questions each quiz has.

    A lesson beside the path leads back to the list of lessons; so do both ends of the path.
    """
    there = {lesson.number: lesson for lesson in everything}
    path = [there[number] for number in path_of() if number in there]
    around = {f"lessons/{one.stem}": ["lessons", "lessons"] for one in everything}
    for before, after in itertools.pairwise(path):
        around[f"lessons/{before.stem}"][1] = f"lessons/{after.stem}"
        around[f"lessons/{after.stem}"][0] = f"lessons/{before.stem}"
    if path:
        around["lessons"] = ["set_up", f"lessons/{path[0].stem}"]
    return {
        "path": [
            {"number": one.number, "stem": one.stem, "page": f"lessons/{one.stem}",
             "title": f"{one.number} {one.header['title']}"}
            for one in path
        ],
        "around": around,
        "quizzes": {one.stem: len(one.sidecar.get("quiz") or []) for one in everything},
    }  # fmt: skip


def front_what_if(pages: dict[str, dict[str, Any]]) -> str:
    """The first page's what-if: a lesson's widget as its run left it, without a manager."""
    stem, function, sliders = FRONT
    widgets = pages[stem]["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]
    state = next(
        model["state"]
        for model in widgets["state"].values()
        if model["state"].get("spec", {}).get("function") == function
    )
    named = {slider["name"]: slider for slider in state["spec"]["inputs"]}
    kept = {name: state[name] for name in ("settings", "result", "source")}
    kept["spec"] = state["spec"] | {"inputs": [named[name] for name in sliders]}
    # Nothing in a script ends it early.
    text = json.dumps(kept, ensure_ascii=False).replace("<", "\\u003c")
    return WHAT_IF.format(state=text, says=state["result"]["says"])


def front_picture(pages: dict[str, dict[str, Any]]) -> str:
    """The first page's picture: the first one of the first lesson, as its run drew it."""
    outputs = [
        "".join(output.get("data", {}).get("text/html", ""))
        for cell in next(iter(pages.values()))["cells"]
        for output in cell.get("outputs", [])
    ]
    return next(markup for markup in outputs if "dtlib-figure" in markup)


def machine() -> Path:
    """What `dtlib doctor` found when a lesson last ran here, whatever its exit code."""
    told = BUILD / "machine.txt"
    newest = max(page.stat().st_mtime for page in (BUILD / "lessons").glob("*.ipynb"))
    if not told.exists() or told.stat().st_mtime < newest:
        words = [sys.executable, "-m", "dtlib", "doctor"]
        done = subprocess.run(words, cwd=BOOK.parent, capture_output=True, text=True)
        facts = (
            f"ok       system         {platform.system()} on {platform.machine()}\n{done.stdout}"
        )
        told.write_text(facts.replace(str(BOOK.parent), "the course's folder"))
    return told
