"""Where a lesson can be opened, edited and cited: links made from the course's address."""

from __future__ import annotations

from urllib.parse import urlsplit

BRANCH = "main"


def of_lesson(stem: str, address: str) -> str:
    """The links of one lesson, as a line of Markdown.

    Parameters
    ----------
    stem
        The lesson's room, such as `07_ranks_and_collectives`.
    address
        `project.urls` of pyproject.toml. Under an address that is reserved for examples there is
        nothing to open, and the line says so.
    """
    source, notebook = f"lessons_src/{stem}/lesson.py", f"notebooks/student/{stem}.ipynb"
    cite = "[cite](/cite.md)"
    url = urlsplit(address.rstrip("/"))
    place = url.path.strip("/").removesuffix(".git")
    if url.hostname == "example.org":
        return (
            f"Source: `{source}` · {cite}. The course is not published yet, so there is nothing "
            "to open in Colab or Binder."
        )
    links = []
    if url.hostname == "github.com":
        links = [
            f"[open in Colab](https://colab.research.google.com/github/{place}/blob/{BRANCH}/"
            f"{notebook}) ([two lines to run first](/set_up.md#colab))",
            _binder("gh", place, notebook),
            f"[edit the source](https://github.com/{place}/edit/{BRANCH}/{source})",
        ]
    elif url.hostname == "gitlab.com":
        links = [
            _binder("gl", place.replace("/", "%2F"), notebook),
            f"[edit the source](https://gitlab.com/{place}/-/edit/{BRANCH}/{source})",
        ]
    else:
        links = [f"source: `{source}` in [the repository]({address})"]
    return " · ".join([*links, cite])


def _binder(kind: str, place: str, notebook: str) -> str:
    return (
        f"[open in Binder](https://mybinder.org/v2/{kind}/{place}/{BRANCH}"
        f"?urlpath=lab/tree/{notebook})"
    )
