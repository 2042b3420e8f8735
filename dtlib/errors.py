"""One family of errors. Each message is one sentence: what is wrong, numbers, what to do."""

from __future__ import annotations

import difflib
import errno
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


def in_words(error: Exception) -> str:
    """Return the reason for an error on one line, without its number and the file's name."""
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
        return (
            "there is no such file"
            if error.errno == errno.ENOENT
            else reason[0].lower() + reason[1:]
        )
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return " ".join(str(error).split())


def unusable(error: OSError) -> BadInput:
    """Return the sentence for a file or a folder that may not be read or written."""
    return BadInput(f"{error.filename} cannot be used: {in_words(error)}.")


_SYNONYMS = {"gpu": "cuda"}


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the nearest of `choices`, or `""` when none is near."""
    known = list(choices)
    near = difflib.get_close_matches(_SYNONYMS.get(word, word), known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def refuse_unknown(what: str, word: Any, choices: Iterable[str]) -> None:
    """Refuse a word that is not in `choices`; the message lists them and suggests the nearest."""
    known = list(choices)
    if word not in known:
        near = did_you_mean(str(word), known)
        raise BadInput(f"unknown {what} {word!r}; choose from {', '.join(known)}.{near}")
