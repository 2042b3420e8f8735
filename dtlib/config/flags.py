"""Command-line flags: one for each field of `RunConfig`; one sentence refuses a wrong one."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn

from dtlib.config import CHOICES, RunConfig
from dtlib.config.belonging import of_task
from dtlib.errors import BadInput, did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that reports a wrong flag in one sentence and suggests the nearest valid one."""

    asked: ClassVar[Callable[[Parser], None] | None] = None  # by a shell, to complete a line
    words: Collection[str] = ()  # those being parsed

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if Parser.asked:
            answer, Parser.asked = Parser.asked, None  # the answer parses, too
            answer(self)
        self.words = list(args or ())
        for before, word in itertools.pairwise(["", *self.words]):
            if word == "" or (word.startswith("--") and word.endswith("=")):
                # as from a variable of the shell that is not set
                what = word[:-1] or (before if before.startswith("-") else "one of the words")
                raise BadInput(f"{what} is empty; give a value, or leave it out.")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        hint = f" `{self.prog} --help` lists all settings."
        if match := re.match(r"argument \S+: invalid choice: (\S+) \(choose from (.*)\)", message):
            word, known = match[1].strip("'"), re.findall(r"[\w-]+", match[2])
            message = f"unknown word {word!r}; choose from {', '.join(known)}"
            hint = did_you_mean(word, known)
        elif match := re.match(r"argument (\S+): invalid int value: (.*)", message):
            message = f"{match[1]} is {match[2]}; it must be a whole number"
        elif match := re.match(r"argument (\S+): ignored explicit argument (.*)", message):
            message = f"{match[1]} takes no value, so leave {match[2]} out"
        elif match := re.match(r"unrecognized arguments: (\S+)", message):
            word = match[1].partition("=")[0]
            message = f"unknown setting {word!r}"
            if word.startswith("-"):
                hint = did_you_mean(word, self._command()._flags_of_the_task()) or hint
        raise BadInput(f"{message}.{hint}")

    def _command(self) -> Parser:
        """Return the parser of the subcommand that the words name, otherwise this parser."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return next((action.choices[w] for w in self.words if w in action.choices), self)
        return self

    def _flags_of_the_task(self) -> list[str]:
        """Return the flags without those of another task, which would be refused next."""
        flags = self._option_string_actions
        tasks = [word for word in self.words if word in CHOICES["task"]]
        return [flag for flag in flags if not tasks or of_task(flags[flag].dest, tasks[0])]


def add_settings(
    parser: Parser,
    *,
    but: Collection[str] = (),
    kind: Any = RunConfig,
    choices: Mapping[str, Iterable[str]] | None = None,
) -> None:
    """Add a flag for each field of a dataclass, with its docstring entry as the help text.

    Values stay text: `config.values.typed` gives flags and YAML the same types and the same
    error messages.

    Parameters
    ----------
    parser
        Receives the flags; `task` becomes a positional argument.
    but
        Fields to leave out.
    kind
        The dataclass.
    choices
        For each field, the values that its help lists, in addition to those in `CHOICES`.
    """
    notes, words = parameter_notes(kind), {**CHOICES, **(choices or {})}
    groups = {group: parser.add_argument_group(group) for group in _groups(notes)}
    for field in dataclasses.fields(kind):
        note = notes.get(field.name, Note())
        if field.name == "task":
            task = parser.add_argument("task", nargs="?", metavar="images|text", help=note.text)
            offer(task, CHOICES["task"])
        elif field.name not in but:
            _add_flag(groups.get(note.group, parser), field, note, words.get(field.name))


def _groups(notes: Mapping[str, Note]) -> list[str]:
    return list(dict.fromkeys(note.group for note in notes.values() if note.group))


def _add_flag(
    parser: argparse._ActionsContainer,
    field: dataclasses.Field[Any],
    note: Note,
    choices: Iterable[str] | None,
) -> None:
    flag, kind, text = "--" + field.name.replace("_", "-"), str(field.type), note.text
    if field.default is not None and "(default" not in text:
        shown = ("on" if field.default else "off") if kind == "bool" else field.default
        text = f"{text} (default: {shown})"
    text = text.replace("%", "%%")
    if kind == "bool":
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        return
    name = "N" if kind.startswith("int") else "NUMBER" if kind.startswith("float") else "NAME"
    shown = f"{{{','.join(choices)}}}" if choices else note.placeholder or name
    action = parser.add_argument(flag, metavar=shown, help=text)
    if choices:
        offer(action, choices)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json to a command that lists something."""
    parser.add_argument("--json", action="store_true", default=False, help="print the list as JSON")


def offer(action: argparse.Action, words: Iterable[str]) -> None:
    """Let a shell offer these words for a flag that parses any word and refuses others later.

    argcomplete reads the attribute `completer`; without it, argcomplete would offer file names.
    """
    offered = tuple(words)
    action.completer = lambda **_: offered  # type: ignore[attr-defined]


def one_of(prog: str, words: Iterable[str]) -> Parser:
    """Return the parser of a command whose next word is one of these, each with its own parser."""
    parser = Parser(prog=prog)
    offer(parser.add_argument("what", nargs="?"), words)
    return parser


class Note(NamedTuple):
    """A docstring's entry for a setting: its text, a placeholder for its value, and its group."""

    text: str = ""
    placeholder: str = ""
    group: str = ""


def parameter_notes(kind: type) -> dict[str, Note]:
    """Return each entry under "Parameters" of a NumPy-style docstring.

    The text after `name : ` is the value's placeholder; a line in `**` names the group of the
    entries below it.
    """
    text = (inspect.getdoc(kind) or "").partition("Parameters\n----------\n")[2]
    text = re.split(r"\n\n\w+\n-+\n", text)[0]
    notes, group = {}, ""
    for head, said in re.findall(
        r"^(\S[^\n]*)\n((?:[ ]+[^\n]*(?:\n|$))*)", text, flags=re.MULTILINE
    ):
        if head.startswith("**"):
            group = head.strip("*")
        else:
            name, _, placeholder = head.partition(" : ")
            notes[name] = Note(" ".join(said.split()), placeholder, group)
    return notes


def hyphens(word: str) -> str:
    """Turn `--global_batch=8` into `--global-batch=8`; a value keeps its underscores."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word
