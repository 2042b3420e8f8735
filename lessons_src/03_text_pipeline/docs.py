"""Documents that every machine has: the docstrings of Python's own library."""

from __future__ import annotations

import importlib
import inspect

from dtlib.errors import BadInput

MODULES = (
    "argparse", "ast", "asyncio", "calendar", "codecs", "collections", "configparser", "csv",
    "datetime", "decimal", "difflib", "email.message", "fractions", "functools", "gettext", "heapq",
    "http.client", "http.cookiejar", "inspect", "io", "itertools", "json", "locale", "logging",
    "mailbox", "multiprocessing.pool", "os", "pathlib", "pickle", "random", "re", "sched", "shutil",
    "socket", "statistics", "string", "subprocess", "tarfile", "tempfile", "textwrap", "threading",
    "tokenize", "unittest", "urllib.request", "uuid", "warnings", "weakref",
    "xml.dom.minidom", "zipfile",
)  # fmt: skip
SHORTEST = 40  # characters
DOCUMENTS, CONTEXT, VOCABULARY = (50, 1000), (2, 1024), (257, 10_000)  # least and most


def refuse_beyond(documents: int, context: int, vocabulary: int) -> None:
    """Refuse parameters of the lesson with which a later cell could not work.

    Raises
    ------
    BadInput
        With the name, its value and its bounds.
    """
    given = {"documents": (documents, DOCUMENTS), "context": (context, CONTEXT)}
    for name, (value, (least, most)) in (given | {"vocabulary": (vocabulary, VOCABULARY)}).items():
        if not least <= value <= most:
            raise BadInput(
                f"{name} is {value}, and this lesson works with {least:,} to {most:,}: "
                "change it in the cell of parameters and run that cell and this one again."
            )


def docstrings(count: int) -> list[str]:
    """Return the first `count` different docstrings, in a fixed order; they are of any length."""
    found: dict[str, None] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        things = [module]
        for _, thing in sorted(vars(module).items()):
            if getattr(thing, "__module__", None) != name:
                continue
            things.append(thing)
            if inspect.isclass(thing):
                things += [own for _, own in sorted(vars(thing).items()) if callable(own)]
        for thing in things:
            text = getattr(thing, "__doc__", None)
            if isinstance(text, str) and len(text := inspect.cleandoc(text)) >= SHORTEST:
                found[text] = None
    # strides spread the modules over the list, so that a few documents have all kinds
    texts = list(found)
    return [text for first in range(7) for text in texts[first::7]][:count]
