"""The command line: `dtlib doctor | fetch | train | profile | lessons | batch | study | …`.

Exit codes: 0 done, 1 the run failed, 2 bad input, 69 not available on this machine, 75 stopped by
a signal with a checkpoint written, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from dtlib import __version__
from dtlib.cli.commands import COMMANDS, help_text
from dtlib.cli.describing import explain
from dtlib.cli.launched import share_hash_seed, without_local_rank
from dtlib.cli.training import parse_train, train_parser
from dtlib.errors import DtlibError, refuse_unknown, unusable
from dtlib.ranks.ending import end_rank

__all__ = ["main", "parse_train", "train_parser"]

PIPE_CLOSED = 141  # what a shell reports for a program whose reader, such as `head`, has left
INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv
        Words after `dtlib` (default: those of this process).
    """
    if argv is None and "_ARGCOMPLETE" in os.environ:
        from dtlib.cli.completing import complete

        complete()
        return 1
    if argv is not None:
        return _run(list(argv))
    share_hash_seed()
    return end_rank(_run(sys.argv[1:]))


def _run(words: list[str]) -> int:
    """Run the command and return its exit code."""
    try:
        code = _dispatch(without_local_rank(words))
        print(end="", flush=True)
        return code
    except DtlibError as error:
        explain(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("dtlib: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _reader_left()
        if error.filename is None:  # not about a file that the user could correct
            raise
        explain(unusable(error))
        return 2 if isinstance(error, PermissionError) or error.errno == errno.EROFS else 1


def _reader_left() -> int:
    """Report that the output's reader has gone, and return the exit code."""
    # Python flushes the remaining output at exit, and would report the closed pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    print("dtlib: stopped, because the reader of its output has closed the pipe.", file=sys.stderr)
    return PIPE_CLOSED


def _dispatch(words: list[str]) -> int:
    if len(words) > 1 and words[0] == "help":
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text(), end="")
        return 0
    if words[0] == "--version":
        print(f"dtlib {__version__}")
        return 0
    refuse_unknown("command", words[0], COMMANDS)
    return COMMANDS[words[0]].run(words[1:])
