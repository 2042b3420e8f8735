"""Execute the lessons for the website; a page is kept until something that it needs changes."""

from __future__ import annotations

import contextlib
import hashlib
import html
import importlib.metadata
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtlib.config.files import write_atomically
from dtlib.learn.source import Lesson
from dtlib.lessons import reader
from dtlib.lessons.build import derive
from dtlib.lessons.needed import files_of
from dtlib.lessons.page import UNWRITTEN
from dtlib.lessons.run import Job, refuse_numbers, run_notebooks
from dtlib.lessons.validate import validate_all
from dtlib.measure.noise import WITHIN

_DRAWN = '<svg role="img" aria-label="Figure'
_CAPTION = re.compile(r"<caption>(.*?)</caption>", re.S)


def build_pages(
    lessons: Sequence[Lesson],
    out: Path,
    *,
    chosen: Sequence[Lesson] | None = None,
    jobs: int = 2,
    timeout: int = 300,
) -> int:
    """Execute each lesson whose page is missing or out of date, and write its page.

    Parameters
    ----------
    lessons
        All lessons of the course; pages of any others are removed.
    out
        Where the pages go: `out/stem.ipynb`. A lesson runs in `out/run/stem`, where its notebook
        stays if it failed; its page is then missing.
    chosen
        Those of the lessons whose pages are wanted now; by default all.
    jobs
        Lessons at a time.
    timeout
        Seconds that one cell may take.

    Returns
    -------
    int
        0, or 1 when a lesson failed.

    Raises
    ------
    BadInput
        For a source that breaks a rule, or numbers below 1.
    """
    refuse_numbers(timeout, jobs)
    validate_all(list(lessons))
    out = out.resolve()
    keys = {lesson.stem: key(lesson) for lesson in lessons}
    for path in out.glob("*.ipynb"):
        if _kept_key(path) != keys.get(path.stem):
            path.unlink()
    wanted = lessons if chosen is None else chosen
    due = [lesson for lesson in wanted if not (out / f"{lesson.stem}.ipynb").exists()]
    # Each lesson runs in an empty folder of its own: no page shows an earlier run's answers.
    everything = [Job(one, "page", out / "run" / one.stem / f"{one.stem}.ipynb") for one in due]
    for job in everything:
        shutil.rmtree(job.target.parent, ignore_errors=True)
    if everything:
        run_notebooks(everything, {}, jobs, timeout)
    for job in everything:
        if not job.error:
            page = json.loads(job.target.read_text(encoding="utf-8"))
            text = finish(page, keys[job.lesson.stem])
            write_atomically(out / job.target.name, text)
            shutil.rmtree(job.target.parent)
    failed = [job for job in everything if job.error]
    print(f"{len(wanted) - len(due)} pages kept, {len(due) - len(failed)} made in {out}")
    return 1 if failed else 0


def key(lesson: Lesson) -> str:
    """A hash of all that a page depends on: its room, what it uses of dtlib, the packages."""
    digest = hashlib.sha256(derive(lesson, "page").encode())
    digest.update(json.dumps(lesson.sidecar, sort_keys=True, default=str).encode())
    digest.update("\n".join([sys.version, *_packages()]).encode())
    # What a run is made into afterwards follows from these two.
    for path in (Path(__file__), Path(reader.__file__), *files_of(lesson)):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _packages() -> list[str]:
    """Versions of what dtlib needs to run; linters and other packages change no page."""
    try:
        needed = importlib.metadata.requires("dtlib") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that was not installed
        return sorted(f"{d.name} {d.version}" for d in importlib.metadata.distributions())
    found = []
    for line in needed:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        if not re.search(r"extra == .(dev|book)\b", line):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found.append(f"{name} {importlib.metadata.version(name)}")
    return sorted(found)


def _kept_key(path: Path) -> str | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["metadata"]["dtlib"]["key"]
    except (OSError, ValueError, KeyError):
        return None


def finish(page: dict[str, Any], key: str) -> str:
    """The text of a page: an executed notebook without paths of this machine, figures described.

    Cells that ran only to test the student's notebook are left out, and what the others show
    speaks to a reader.
    """
    ran = page["metadata"].pop("papermill", {})
    page["cells"] = [c for c in page["cells"] if UNWRITTEN not in c["metadata"].get("tags", [])]
    page["metadata"]["dtlib"] = {"key": key, "seconds": ran.get("duration")}
    page["metadata"]["dtlib"]["on"] = str(ran.get("end_time") or "")[:10]
    for cell in page["cells"]:
        for name in ("papermill", "execution", "lines_to_next_cell"):
            cell["metadata"].pop(name, None)
    noise = [text for cell in page["cells"] for text in _said(cell) if text.startswith(WITHIN)]
    page["metadata"]["dtlib"]["noise"] = len(noise)
    if noise:
        page["cells"].insert(1, _busy(noise))
    _describe_figures(page["cells"])
    for cell in page["cells"]:
        if "outputs" in cell:
            cell["outputs"] = reader.shown(cell["outputs"])
    if widgets := page["metadata"].pop("widgets", None):
        page["metadata"]["widgets"] = reader.shown(widgets)
    return json.dumps(page, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _busy(noise: Sequence[str]) -> dict[str, Any]:
    """The cell that warns a reader, before anything else, which effects are not results."""
    lines = [f"- {text.removeprefix(WITHIN).strip()}\n" for text in noise]
    text = (
        "When this page ran, these effects were no larger than the differences that the same "
        "measurement shows when nothing is changed. No number, figure or sentence about them on "
        "this page is a result:\n"
    )
    source = [":::{warning}\n", text, "\n", *lines, ":::"]
    return {"cell_type": "markdown", "id": "busy", "metadata": {}, "source": source}


def _said(cell: dict[str, Any]) -> list[str]:
    """What the cell displayed or printed, as plain text."""
    outputs = [one.get("text") or one.get("data", {}).get("text/plain", "")
               for one in cell.get("outputs", [])]  # fmt: skip
    return ["".join(text) for text in outputs]


def _describe_figures(cells: list[dict[str, Any]]) -> None:
    """Give each figure an alternative text: its section, and the table below with its numbers."""
    heading = ""
    for place, cell in enumerate(cells):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            found = re.findall(r"^#+ +(.+)$", text, re.M)
            heading = found[-1] if found else heading
            continue
        alt = f"Figure of the section “{heading}”."
        if caption := _caption(cells[place : place + 3]):
            alt += f" The table below it has the numbers: {caption}."
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                cell["metadata"].setdefault("mystnb", {})["image"] = {"alt": alt}
            elif _DRAWN in (markup := "".join(data.get("text/html", ""))):
                # A picture with a description of its own keeps it.
                said = _DRAWN.removesuffix("Figure") + html.escape(alt.removesuffix("."))
                data["text/html"] = markup.replace(_DRAWN, said)


def _caption(cells: Sequence[dict[str, Any]]) -> str:
    """The caption of the first table that these cells show."""
    for cell in cells:
        for output in cell.get("outputs", []):
            if found := _CAPTION.search("".join(output.get("data", {}).get("text/html", ""))):
                return html.unescape(re.sub("<[^>]+>", "", found[1])).rstrip(".")
    return ""
