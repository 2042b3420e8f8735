"""Flags of the command line: refused in one sentence, and one for each field of `RunConfig`."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn

from dtlib.config import CHOICES, RunConfig
from dtlib.errors import BadInput, did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong in one sentence, and names the nearest right flag."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        hint = f" `{self.prog} --help` lists all settings."
        match = re.match(r"unrecognized arguments: (\S+)", message)
        if match:
            word = match[1].partition("=")[0]
            message = f"unknown setting {word!r}"
            if word.startswith("-"):
                hint = did_you_mean(word, self._option_string_actions) or hint
        raise BadInput(f"{message}.{hint}")


def add_settings(
    parser: Parser,
    *,
    but: Collection[str] = (),
    kind: Any = RunConfig,
    choices: Mapping[str, Iterable[str]] | None = None,
) -> None:
    """Add a flag for each field of a dataclass, with what its docstring says as help.

    Values stay text: `config.values.typed` gives flags and YAML the same types and the same
    sentences.

    Parameters
    ----------
    parser
        Takes the flags; `task` becomes a word without one.
    but
        Fields that are not wanted.
    kind
        The dataclass.
    choices
        Field to the words that it may be, for the help, beside those that this floor knows.
    """
    notes, words = parameter_notes(kind), {**CHOICES, **(choices or {})}
    for field in dataclasses.fields(kind):
        note = notes.get(field.name, "")
        if field.name == "task":
            parser.add_argument("task", nargs="?", metavar="images|text", help=note)
        elif field.name not in but:
            _add_flag(parser, field, note, words.get(field.name))


def _add_flag(
    parser: Parser, field: dataclasses.Field[Any], note: str, choices: Iterable[str] | None
) -> None:
    flag, kind = "--" + field.name.replace("_", "-"), str(field.type)
    if field.default is not None and "(default" not in note:
        shown = ("on" if field.default else "off") if kind == "bool" else field.default
        note = f"{note} (default: {shown})"
    note = note.replace("%", "%%")
    if kind == "bool":
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=note)
        return
    name = "N" if kind.startswith("int") else "X" if kind.startswith("float") else "NAME"
    name = "|".join(choices or [name])
    parser.add_argument(flag, metavar=name, help=note)


def parameter_notes(kind: type) -> dict[str, str]:
    """Text of each entry under "Parameters" in a NumPy-style docstring."""
    text = (inspect.getdoc(kind) or "").partition("Parameters\n----------\n")[2]
    text = re.split(r"\n\n\w+\n-+\n", text)[0]
    entries = re.findall(r"^(\w+)[^\n]*\n((?:[ ]+[^\n]*\n?)+)", text, flags=re.MULTILINE)
    return {name: " ".join(note.split()) for name, note in entries}


def hyphens(word: str) -> str:
    """`--global_batch=8` is `--global-batch=8`; a value keeps its underscores."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word
