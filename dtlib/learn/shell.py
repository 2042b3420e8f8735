"""Run a command line from a notebook cell, as a terminal would, and tell when it fails."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import processes

LAST = 12  # lines of a failed command that its error repeats
# torchrun would set one thread per rank by itself, with a warning that teaches nothing.
QUIET = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONUNBUFFERED": "1"}


class CommandFailed(DtlibError):
    """A command ended with an exit code other than 0, or did not finish in time."""


def shell(command: str, timeout: float = 240.0, quiet: bool = False) -> None:
    """Run one command and show its output as it arrives.

    No shell interprets it: no pipes, no wildcards. Programs of this Python, such as `torchrun`, are
    found first. Whatever happens, no process that the command started is left running.

    Parameters
    ----------
    command
        The command line, for instance `"torchrun --standalone --nproc-per-node=2 train.py"`.
    timeout
        Seconds that it may take.
    quiet
        Do not show the output; if the command fails, the error has its last lines.

    Raises
    ------
    CommandFailed
        When its exit code is not 0, or its time runs out.
    BadInput
        When there is no such program.
    """
    print(f"$ {command}")
    words = _words(command)
    process = _start(words)
    out_of_time = threading.Event()

    def stop() -> None:
        out_of_time.set()
        processes.end(process)

    alarm = threading.Timer(timeout, stop)
    alarm.daemon = True  # a kernel that ends does not wait for it
    alarm.start()
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if not quiet:
                print(line, end="")
            lines.append(line.rstrip())
        code = process.wait()
    finally:
        alarm.cancel()
        processes.end(process)
    said = "\n".join(line for line in lines[-LAST:] if line)
    if out_of_time.is_set():
        end = f" Its last output:\n{said}" if quiet and said else ""
        raise CommandFailed(f"{words[0]} did not finish within {timeout:g} s and was stopped.{end}")
    if code:
        raise CommandFailed(f"{words[0]} ended with exit code {code}; its last output:\n{said}")


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:  # an unclosed quotation mark
        raise BadInput(f"the command cannot be parsed: {error}.") from None
    if not words:
        raise BadInput("the command is empty; name a program.")
    return words


def _start(words: list[str]) -> subprocess.Popen[str]:
    own = str(Path(sys.executable).parent)
    env = {**QUIET, **os.environ, "PATH": os.pathsep.join([own, os.environ.get("PATH", "")])}
    try:
        return processes.start(words, env=env)
    except FileNotFoundError:
        raise BadInput(f"there is no program {words[0]!r} on this machine.") from None
    except OSError as error:
        raise BadInput(f"{words[0]!r} cannot be started: {error.strerror}.") from None
