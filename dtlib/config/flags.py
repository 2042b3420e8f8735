"""Flags of the command line: refused in one sentence, and one for each field of `RunConfig`."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn

from dtlib.config import CHOICES, RunConfig
from dtlib.errors import BadInput, did_you_mean

# The groups of a run's settings in the help, each with the field that begins it.
GROUPS = {
    "task": "what is trained, and how it is spread",
    "steps": "steps and batches",
    "lr": "optimizer",
    "precision": "precision and compiler",
    "bucket_cap_mb": "what some strategies heed",
    "ledger": "what is measured besides",
    "num_samples": "model and data",
    "device": "device and timing",
    "out": "records and checkpoints",
}
# What a value is, where a setting has no list of words.
PLACEHOLDERS = {
    "accumulation": "BATCHES", "adam_eps": "EPSILON", "bucket": "ELEMENTS", "bucket_cap_mb": "MIB",
    "checkpoint_every": "STEPS", "clip": "NORM", "data": "NAME|FOLDER", "deepspeed": "FILE",
    "dropout": "SHARE", "epochs": "EPOCHS", "eval_every": "STEPS", "global_batch": "SAMPLES",
    "lr": "RATE", "lr_floor": "SHARE", "max_length": "TOKENS", "micro_batch": "SAMPLES",
    "model": "MODEL", "momentum": "SHARE", "num_samples": "SAMPLES", "nvme": "FOLDER",
    "nvtx_first": "STEP", "nvtx_last": "STEP", "out": "FOLDER", "ranks": "RANKS", "seed": "SEED",
    "sequence": "TOKENS", "shard_ranks": "RANKS", "skip_limit": "STEPS", "steps": "STEPS",
    "threads": "THREADS", "timeout": "SECONDS", "tokenizer": "NAME|FOLDER",
    "untimed_steps": "STEPS", "vocab_size": "TOKENS", "warmup_steps": "STEPS",
    "weight_decay": "RATE", "width": "CHANNELS", "workers": "PROCESSES", "zero_stage": "1|2|3",
}  # fmt: skip
COMPLETION = "_ARGCOMPLETE"  # the variable by which a shell asks for completions


class Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong in one sentence, and names the nearest right flag."""

    completes = False  # whether this process answers a shell

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Read the words; where a shell asks, say what may come next, and end."""
        if COMPLETION in os.environ and not Parser.completes:
            import argcomplete

            Parser.completes = True  # it reads the line by this method, too
            argcomplete.autocomplete(self)
        return super().parse_known_args(args, namespace)

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
    group: Any = parser
    for field in dataclasses.fields(kind):
        note = notes.get(field.name, "")
        if kind is RunConfig and field.name in GROUPS:
            group = parser.add_argument_group(GROUPS[field.name])
        if field.name == "task":
            task = group.add_argument("task", nargs="?", metavar="images|text", help=note)
            _complete(task, ("images", "text"))
        elif field.name not in but:
            _add_flag(group, field, note, words.get(field.name))


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`, which every command has that lists something."""
    parser.add_argument(
        "--json", action="store_true", default=False, help="print the list as JSON, for a program"
    )


def print_json(found: Any) -> None:
    """Print one JSON value and nothing else; what JSON has no word for, as its text."""
    print(json.dumps(found, indent=1, ensure_ascii=False, default=str))


def _complete(argument: argparse.Action, words: Iterable[str]) -> None:
    """Let a shell complete these words; a flag without words is completed by files."""
    argument.completer = lambda **_: list(words)  # type: ignore[attr-defined]  # argcomplete's


def _add_flag(
    parser: Any, field: dataclasses.Field[Any], note: str, choices: Iterable[str] | None
) -> None:
    flag, kind = "--" + field.name.replace("_", "-"), str(field.type)
    if field.default is not None and "(default" not in note:
        shown = ("on" if field.default else "off") if kind == "bool" else field.default
        note = f"{note} (default: {shown})"
    note = note.replace("%", "%%")
    if kind == "bool":
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=note)
        return
    name = "|".join(choices or [PLACEHOLDERS.get(field.name, "VALUE")])
    argument = parser.add_argument(flag, metavar=name, help=note)
    if choices:
        _complete(argument, choices)


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
