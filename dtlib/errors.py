"""One family of errors. Each message is one sentence: what is wrong, numbers, what to do."""

from __future__ import annotations

import difflib
import errno
import functools
import json
from collections.abc import Iterable
from typing import Any


class DtlibError(Exception):
    """A failure that dtlib explains: the command line prints it and exits with `exit_code`."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """Show the sentence alone in a notebook (IPython's hook)."""
        return [f"{type(self).__name__}: {self}"]


class BadInput(DtlibError):
    """The input contradicts itself or names something that does not exist; nothing was started."""

    exit_code = 2


class Unavailable(DtlibError):
    """This machine cannot run what was asked for; the message says what to do about it."""

    exit_code = 69


class Stopped(DtlibError):
    """A signal stopped the run after a checkpoint was written; start the run again to resume it."""

    exit_code = 75


# What the operating system says in words that only its programmers use.
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.EEXIST: "there is a file of that name",
    errno.ENOTDIR: "part of its path is a file, not a folder",
    errno.EISDIR: "it is a folder, not a file",
}


def in_words(error: Exception) -> str:
    """Return the reason for an error on one line, without its number and the file's name."""
    if isinstance(error, OSError) and error.strerror:
        return _REASONS.get(error.errno or 0) or error.strerror[0].lower() + error.strerror[1:]
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON in line {error.lineno}"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return " ".join(str(error).split())


def unusable(error: OSError) -> BadInput:
    """Return the sentence for a file or a folder that may not be read or written."""
    return BadInput(f"{error.filename} cannot be used: {in_words(error)}.")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 rank`, or `3 ranks`; a `plural` that needs more than an s is given."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


# Other programs' words for what dtlib calls differently.
_SYNONYMS = {"gpu": "cuda", "gpus": "ranks", "learning-rate": "lr", "batch-size": "global-batch"}


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the nearest of `choices`, or `""` when none is near.

    Near is a word with a typing error, then a choice that is a part of the word (`--num-steps`),
    then one that shares seven of ten letters with the word.
    """
    known = {_bare(choice): choice for choice in choices}
    bare = _SYNONYMS.get(_bare(word), _bare(word))
    parts = [one for one in known if {*one.split("-")} <= {*bare.split("-")}]
    close = functools.partial(difflib.get_close_matches, bare, known, 1)
    near = close(cutoff=0.8) or sorted(parts, key=len)[-1:] or close(cutoff=0.7)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def _bare(word: str) -> str:
    return word.lstrip("-").replace("_", "-")


def refuse_unknown(what: str, word: Any, choices: Iterable[str]) -> None:
    """Refuse a word that is not in `choices`; the message lists them and suggests the nearest."""
    known = list(choices)
    if word not in known:
        near = did_you_mean(str(word), known)
        wrong = f"unknown {what} {word!r}" if near else f"{what} {word!r} is not offered"
        raise BadInput(f"{wrong}; choose from {', '.join(known)}.{near}")
