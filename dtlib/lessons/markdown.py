"""MyST Markdown as plain Markdown, which JupyterLab, VS Code and Colab all show."""

from __future__ import annotations

import re

_DIRECTIVE = re.compile(
    r"^(`{3,}|:{3,})\{(?P<kind>[\w-]+)\}[ ]*(?P<title>[^\n]*)\n"
    r"(?P<options>(?::[\w-]+:[^\n]*\n)*)(?P<body>.*?)^\1[ ]*$",
    re.S | re.M,
)
_ROLE = re.compile(r"\{(?P<kind>[\w-]+)\}`(?P<text>[^`<]+?)(?:\s*<[^`]*>)?`")
_LABEL = re.compile(r"^\([\w-]+\)=\n", re.M)


def plain(text: str) -> str:
    """Turn directives into block quotes, figures into images, roles into their text."""
    text = _DIRECTIVE.sub(_directive, text)
    text = _ROLE.sub(lambda m: f"`{m['text']}`" if m["kind"] == "code" else m["text"], text)
    return _LABEL.sub("", text)


def _directive(match: re.Match[str]) -> str:
    kind, title, body = match["kind"], match["title"].strip(), match["body"].strip()
    if kind in ("figure", "image"):
        alt = re.search(r"^:alt:[ ]*(.*)$", match["options"], re.M)
        image = f"![{alt[1] if alt else body or title}]({title})"
        return f"{image}\n\n{plain(body)}".rstrip()
    if kind == "math":
        return f"$$\n{body}\n$$"
    if kind in ("code-block", "code"):
        return f"```{title}\n{body}\n```"
    name = "" if kind == "admonition" else kind.replace("-", " ").capitalize()
    return quoted(": ".join(part for part in (name, title) if part), plain(body))


def folded(summary: str, text: str) -> str:
    """Text folded behind a summary line."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def quoted(title: str, text: str) -> str:
    """A block quote with a title in bold."""
    lines = (f"**{title}**", "", *text.strip().splitlines())
    return "\n".join(f"> {line}" if line else ">" for line in lines)
