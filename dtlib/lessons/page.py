"""The website's variant of a lesson: its MyST as is, stubs to read, solutions folded but run."""

from __future__ import annotations

import ast
import re

from dtlib.learn.source import Cell, Lesson, solved, stub
from dtlib.lessons.markdown import folded
from dtlib.lessons.reader import prose

# What MyST-NB writes on the line that opens a folded cell.
_SOLUTION = {"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
_DRAWING = {
    "code_prompt_show": "Show the code of this figure",
    "code_prompt_hide": "Hide the code of this figure",
}
# Calls that only bring data into the shape of a figure, in a cell that draws one.
_SHAPING = {
    "dict", "enumerate", "items", "keys", "len", "list", "max", "min", "range", "reversed",
    "sorted", "sum", "tuple", "values", "zip",
}  # fmt: skip
# A form needs no code beside it: the line that made it does not help a reader.
_FORMS = {"predict", "quiz", "what_if"}

UNWRITTEN = "unwritten"
"""The tag of cells that run only to test the student's notebook."""
# The check of an unwritten answer must not raise; every other check has to pass.
_PLAIN = '__import__("os").environ.pop("DTLIB_STRICT")'
_STRICT = '__import__("os").environ["DTLIB_STRICT"] = "1"'


def note(lesson: Lesson) -> str:
    """What the page is, and how to do the lesson instead of reading it."""
    return (
        ":::{note}\n"
        "This page is the lesson as it ran from top to bottom, with the course's own solutions in "
        "place of yours. So a check that passes here checked those, and *the course's* is what "
        "your notebook calls *yours*. Predictions, quiz and sliders work in the page. To run and "
        "change the code, open the notebook in JupyterLab "
        "(`make lab`): "
        f"{{download}}`{lesson.stem}.ipynb <../../notebooks/student/{lesson.stem}.ipynb>`.\n"
        ":::"
    )


def glossary(lesson: Lesson) -> set[str]:
    """The words of `book/glossary.md` beside the folder of lessons; none without that file."""
    path = lesson.room.parents[1] / "book" / "glossary.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    blocks = re.findall(r"^```\{glossary\}\n(.*?)^```", text, re.S | re.M)
    return {line for block in blocks for line in re.findall(r"^\S.*$", block, re.M)}


def page_cells(cell: Cell, words: set[str]) -> list[Cell]:
    """What the page has in place of one cell of the source.

    Parameters
    ----------
    cell
        The source's cell.
    words
        The glossary's words: in bold, which is how a lesson introduces one, they become links.
    """
    if "instructor" in cell.tags:
        return []
    if cell.kind == "markdown":
        text = _linked(prose(cell.text), words)
        return [Cell("markdown", folded("Hint", text) if "hint" in cell.tags else text, cell.tags)]
    code = solved(cell.text)
    given = stub(cell.text)
    tags = list(cell.tags)
    if "solution" in tags or given != code:
        hidden = Cell("code", code, [*tags, "hide-input"], metadata={"mystnb": dict(_SOLUTION)})
        if "solution" in tags:
            return [hidden]
        return [Cell("markdown", f"```ipython3\n{given}\n```"), _unwritten(given), hidden]
    if _only_draws(code):
        return [Cell("code", code, [*tags, "hide-input"], metadata={"mystnb": dict(_DRAWING)})]
    return [Cell("code", code, [*tags, "remove-input"] if _is_form(code) else tags)]


def _unwritten(given: str) -> Cell:
    """The exercise as the student finds it, and its check: run, but not shown in the page.

    No other cell uses what an exercise defines (`validate` makes sure of that), so that a page's
    run tests the student's notebook as well.
    """
    names = [node.name for node in ast.parse(given).body if isinstance(node, ast.FunctionDef)]
    checks = "".join(f'assert not learn.check("{name}", {name})\n' for name in names)
    return Cell("code", f"{_PLAIN}\n{given}\n{checks}{_STRICT}", [UNWRITTEN])


def _linked(text: str, words: set[str]) -> str:
    def link(match: re.Match[str]) -> str:
        shown = " ".join(match[1].split())
        known = shown.lower() in words
        return f"**{{term}}`{shown} <{shown.lower()}>`**" if known else match[0]

    return re.sub(r"\*\*(\w[\w\s-]*)\*\*", link, text)


def _only_draws(code: str) -> bool:
    """Whether a cell ends with a figure, and computes and checks nothing on the way to it."""
    try:
        body = ast.parse(code).body
    except SyntaxError:  # a magic
        return False
    last = ast.unparse(body[-1]) if body else ""
    if not re.match(r"(\w+\.)?draw\w*\(|plt\.show\(", last):
        return False
    simple = (ast.Expr, ast.Assign, ast.Import, ast.ImportFrom)
    calls = [node.func for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.Call)]
    return all(isinstance(one, simple) for one in body) and all(map(_draws, calls))


def _draws(called: ast.expr) -> bool:
    """Whether a call draws, or brings data into shape."""
    *owner, name = ast.unparse(called).split(".")
    return name.startswith("draw") or name in _SHAPING or owner[:1] in (["plt"], ["axes"])


def _is_form(code: str) -> bool:
    """Whether a cell is one call of `learn` that shows a form, and nothing else."""
    try:
        body = ast.parse(code).body
    except SyntaxError:  # a magic
        return False
    match body:
        case [ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(id="learn"), attr=name)))]:
            return name in _FORMS
    return False
