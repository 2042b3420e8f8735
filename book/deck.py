"""What a lesson's deck shows, taken from its executed page, its sidecar and its header.

A deck needs nothing of its own in a lesson: the opening question, each prediction, figure, measured
result and exercise, and the take-away become slides. A cell tagged `slide` becomes one as well.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from dtlib.learn.source import Lesson

_CALL = re.compile(r'^learn\.(predict|measured|what_if)\("(\w+)"', re.M)
_TERM = re.compile(r"\{term\}`([^<`]+?)(?: <[^>]*>)?`")


@dataclass
class Slide:
    """One slide: what the room sees, and what only the speaker sees."""

    title: str
    body: str
    notes: str = ""
    kind: str = ""

    @property
    def heading(self) -> str:
        """The title as HTML: it may have code in it."""
        return _inline(self.title)


def slides(lesson: Lesson, page: dict[str, Any]) -> list[Slide]:
    """Return the slides of a lesson.

    Parameters
    ----------
    lesson
        Its source: header, predictions, exercises' stubs and instructor's notes.
    page
        Its executed page, a notebook as `dtlib lessons pages` writes it.
    """
    cells = page["cells"]
    notes = lesson.sidecar.get("notes", {})
    found = [_title(lesson, notes.get("lesson", {}))]
    heading = ""
    for cell in cells[2:]:  # the page's own title and note come first
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            for title, body in _sections(text):
                heading = title or heading
                found += _of_text(heading, title, body, cell, found)
            continue
        for slide in _of_code(lesson, heading, cell, text):
            if slide.kind == "figure" and not heading:
                found[-1].body += slide.body  # the picture of the question
            else:
                found.append(slide)
    return _with_notes(found, notes)


def _of_text(
    heading: str, title: str, body: str, cell: dict[str, Any], before: list[Slide]
) -> Iterator[Slide]:
    """The slides of a section, whose `title` is empty where the last `heading` continues."""
    if len(before) == 1:
        yield Slide("The question", _question(body), kind="question")
    elif title.startswith("Exercise"):
        yield Slide(title, markdown(body), kind="exercise")
    elif body.startswith("```ipython3") and before[-1].kind == "exercise":
        before[-1].body += markdown(body)  # what the student finds
    elif title == "Take-away" or "slide" in cell["metadata"].get("tags", []):
        yield Slide(heading, markdown(body))


def _of_code(lesson: Lesson, heading: str, cell: dict[str, Any], text: str) -> Iterator[Slide]:
    for verb, name in _CALL.findall(text):
        if verb == "predict":
            yield Slide("What do you think?", _prediction(lesson, name), kind=f"predict {name}")
        elif verb == "what_if":
            title = lesson.sidecar["what_if"][name]["title"]
            yield Slide(
                "What if?", f"<p>{html.escape(title)}: move its sliders in the notebook.</p>"
            )
        else:
            shown = re.sub(r' ?<span class="dtlib-guess">.*?</span>', "", _outputs(cell))
            asked = lesson.sidecar["predictions"][name]["question"]
            yield Slide("You predicted, we measured", f"<p>{_inline(asked)}</p>{shown}")
    tags = cell["metadata"].get("tags", [])
    shown = _outputs(cell) if "slide" in tags else _outputs(cell, "dtlib-figure")
    if shown and "check" not in tags:
        yield Slide(heading, shown, kind="figure")
    for function in re.findall(r"^def (\w+)", text, re.M) if "exercise" in tags else []:
        yield Slide("", "", kind=f"solved {function}")


def _title(lesson: Lesson, notes: dict[str, Any] | str) -> Slide:
    header = lesson.header
    aims = "".join(f"<li>{html.escape(aim)}</li>" for aim in header["objectives"])
    minutes = sum(header["minutes"].values())
    return Slide(
        f"{lesson.number} {header['title']}",
        f"<p>After these {minutes} minutes you can</p><ul>{aims}</ul>",
        _noted(notes),
        "title",
    )


def _question(text: str) -> str:
    """The paragraph with the question in bold; without one, the first with anything in bold."""
    paragraphs = text.split("\n\n")
    asking = [part for part in paragraphs if re.search(r"\?\s*\*\*", part)]
    bold = [part for part in paragraphs if "**" in part]
    return markdown((asking or bold or paragraphs)[0])


def _prediction(lesson: Lesson, name: str) -> str:
    entry = lesson.sidecar["predictions"][name]
    options = [option["text"] for option in entry.get("options", [])]
    choices = "".join(f"<li>{_inline(option)}</li>" for option in options)
    unit = f", in {html.escape(entry['unit'])}" if "unit" in entry else ""
    answer = f"<ol>{choices}</ol>" if options else f"<p>(a number{unit})</p>"
    return f"<p>{_inline(entry['question'])}</p>{answer}"


def _with_notes(found: list[Slide], notes: dict[str, Any]) -> list[Slide]:
    """Give each exercise's slide the notes on its functions; drop what only marked them."""
    kept: list[Slide] = []
    for slide in found:
        if slide.kind.startswith("solved "):
            exercise = next((one for one in reversed(kept) if one.kind == "exercise"), None)
            if exercise is not None:
                exercise.notes += _noted(notes.get(slide.kind.split()[1], {}))
        elif slide.body:
            kept.append(slide)
    return kept


def _noted(notes: dict[str, Any] | str) -> str:
    """An instructor's notes as paragraphs: `goes_wrong: …` becomes "Goes wrong: …"."""
    if isinstance(notes, str):
        return f"<p>{_inline(notes)}</p>"
    return "".join(
        f"<p><b>{html.escape(key.replace('_', ' ').capitalize())}:</b> {_note(value)}</p>"
        for key, value in notes.items()
    )


def _note(value: Any) -> str:
    """One note: text, or a list of cells, each named by a piece of its code, and what is said."""
    if not isinstance(value, list):
        return _inline(str(value))
    return "; ".join(
        f"<code>{html.escape(one['cell'])}</code>: {_inline(one.get('see') or one['why'])}"
        for one in value
    )


def _outputs(cell: dict[str, Any], only: str = "") -> str:
    """What a cell has put out, as HTML; plain text keeps its lines. `only` has to be in it."""
    parts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text/html" in data:
            parts.append("".join(data["text/html"]))
        elif text := "".join(output.get("text", data.get("text/plain", ""))):
            parts.append(f"<pre>{html.escape(text)}</pre>")
    return "".join(part for part in parts if only in part)


def _sections(text: str) -> list[tuple[str, str]]:
    """Split a cell at its headings: pairs of a title, empty for what is before one, and a text."""
    parts = re.split(r"^##+ (.+)\n?", text, flags=re.M)
    pairs = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    return [(title, body.strip()) for title, body in pairs if title or body.strip()]


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    return reader.use(dollarmath_plugin, renderer=_mathematics)


def _mathematics(content: str, options: dict[str, Any]) -> str:
    written = html.escape(content)
    return f"\\[{written}\\]" if options.get("display_mode") else f"\\({written}\\)"


def markdown(text: str) -> str:
    """Turn a page's MyST into HTML; formulas stay TeX, for MathJax."""
    return str(_reader().render(_TERM.sub(r"\1", text)))


def _inline(text: str) -> str:
    return str(_reader().renderInline(text))
