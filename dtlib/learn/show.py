"""Show things in a notebook, and the same things as plain text elsewhere.

Nothing is said by colour alone: every verdict begins with a word, every figure has a table.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.ranks.show import in_notebook

# Words only: a product such as 2*n*m is not emphasised. js/common.js does the same.
_STRESS = re.compile(r"(?<![\w*])\*([A-Za-z]+(?: [A-Za-z]+)*)\*(?![\w*])")

# Calls that the course writes without back-ticks: learn.solution("ring").
_CALL = re.compile(r"(\blearn\.\w+\([^()]*\))")
# By the sign before a message: green, red, amber. The colour only repeats what the sign says.
_EDGES = {"✓": "#2fa385", "✗": "#cd1242", "…": "#b86a08"}


class Shown:
    """Something with a plain-text and an HTML form; the last expression of a cell shows it."""

    def __init__(self, text: str, markup: str) -> None:
        self.text = text
        self.markup = markup

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.markup


def show(thing: Any) -> None:
    """Display a widget or a `Shown` in a notebook, print its text elsewhere."""
    if in_notebook():
        from IPython.display import display

        display(thing)
    else:
        print(thing)


def escape(text: Any) -> str:
    """Escape text for HTML; `code` in back-ticks becomes a code element, *words* are emphasised."""
    parts = html.escape(str(text)).split("`")
    if len(parts) % 2 == 0:  # an unpaired back-tick stays one
        return "`".join(parts)
    return "".join(
        f"<code>{part}</code>" if i % 2 else _CALL.sub(r"<code>\1</code>", _stressed(part))
        for i, part in enumerate(parts)
    )


def _stressed(text: str) -> str:
    return _STRESS.sub(r"<em>\1</em>", text)


def table(
    rows: Sequence[Mapping[str, Any] | Sequence[Any]],
    columns: Sequence[str] | None = None,
    caption: str = "",
) -> Shown:
    """A table that screen readers and plain terminals can read; put one under each figure.

    Parameters
    ----------
    rows
        Mappings from column to value, or sequences in the order of `columns`.
    columns
        Headings; by default the first row's keys.
    caption
        What the table shows, in a few words.

    Returns
    -------
    Shown
        The last expression of a cell shows it; `print` gives the plain form.
    """
    names = list(columns or (rows[0] if rows and isinstance(rows[0], Mapping) else []))
    cells = [[_cell(v) for v in _values(row, names)] for row in rows]
    return Shown(_plain_table(cells, names, caption), _html_table(cells, names, caption))


def _values(row: Mapping[str, Any] | Sequence[Any], names: list[str]) -> list[Any]:
    return [row.get(n, "") for n in names] if isinstance(row, Mapping) else list(row)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e3 or value != value else _whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def _whole(value: float) -> str:
    """A number of 1,000 or more without decimals and without an exponent: 12,345."""
    return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"


def _plain_table(cells: list[list[str]], names: list[str], caption: str) -> str:
    everything = ([names] if names else []) + cells
    width = [max(map(len, column)) for column in zip(*everything, strict=True)]
    lines = ["  ".join(f"{v:<{w}}" for v, w in zip(row, width, strict=True)) for row in everything]
    if names:
        lines.insert(1, "  ".join("-" * w for w in width))
    return "\n".join([*([caption] if caption else []), *(line.rstrip() for line in lines)])


def _html_table(cells: list[list[str]], names: list[str], caption: str) -> str:
    sides = [_side(i, column) for i, column in enumerate(zip(*cells, strict=True))]
    head = "".join(
        f'<th scope="col" style="{side}">{escape(name)}</th>'
        for name, side in zip(names, sides or [""] * len(names), strict=False)
    )
    body = "".join(
        "<tr>"
        + f'<th scope="row" style="{sides[0]}">{escape(row[0])}</th>'
        + "".join(
            f'<td style="{side}">{escape(value)}</td>'
            for value, side in zip(row[1:], sides[1:], strict=True)
        )
        + "</tr>"
        for row in cells
    )
    return (
        "<table>"
        + (f"<caption>{escape(caption)}</caption>" if caption else "")
        + (f"<thead><tr>{head}</tr></thead>" if names else "")
        + f"<tbody>{body}</tbody></table>"
    )


def _side(place: int, column: Sequence[str]) -> str:
    """Text and the names of rows are aligned left, numbers right."""
    text = place == 0 or any(any(map(str.isalpha, v)) and not _number(v) for v in column)
    return f"text-align:{'left' if text else 'right'}"


def _number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def say(mark: str, text: str, *more: str) -> None:
    """Show one message: a mark that is also a word, the sentence, and lines below it."""
    show(said(mark, text, *more))


def said(mark: str, text: str, *more: str) -> Shown:
    """Such a message, not yet shown."""
    plain = "\n".join([f"{mark} {text}", *more])
    lines = [f"<p><strong>{escape(mark)}</strong> {escape(text)}</p>"]
    lines += [f"<p>{escape(line)}</p>" for line in more]
    edge = _EDGES.get(mark[0], "currentColor")
    look = f"border-left:4px solid {edge};padding:0.1rem 0 0.1rem 0.8rem;max-width:46rem"
    markup = f'<div role="status" class="dtlib-message" style="{look}">{"".join(lines)}</div>'
    return Shown(plain, markup)


def _code(code: str) -> str:
    """Code with unbroken lines: the reader scrolls, where JupyterLab would break inside words."""
    style = "white-space:pre;overflow-x:auto"
    return f'<pre style="{style}" tabindex="0">{html.escape(code)}</pre>'


def side_by_side(left: tuple[str, str], right: tuple[str, str]) -> Shown:
    """Two titled pieces of code beside each other, one above the other on a narrow screen."""
    text = "\n\n".join(f"{title}\n{'-' * len(title)}\n{code}" for title, code in (left, right))
    boxes = "".join(
        '<figure style="flex:1 1 22rem;min-width:0;margin:0"><figcaption><strong>'
        f"{escape(title)}</strong></figcaption>{_code(code)}</figure>"
        for title, code in (left, right)
    )
    return Shown(text, f'<div style="display:flex;flex-wrap:wrap;gap:1rem">{boxes}</div>')


def folded(summary: str, code: str, *, opened: bool = False) -> Shown:
    """A piece of code folded behind a summary line; plain text shows all of it."""
    markup = (
        f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>"
        f"{_code(code)}</details>"
    )
    return Shown(f"{summary}\n\n{code}", markup)
