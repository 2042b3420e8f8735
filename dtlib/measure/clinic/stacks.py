"""Stacks of a rank as py-spy and faulthandler write them, and frames as the flight recorder does.

The files may come from another machine, so a frame is judged by its path alone.
"""

from __future__ import annotations

import linecache
import re
import sys
from typing import NamedTuple

from dtlib.ranks.where import Where, is_cell, is_waiting

C10D = "torch/distributed/distributed_c10d.py"
# Python, installed packages (py-spy leaves the folders above a package out), and dtlib's recorder
_FOREIGN = re.compile(
    r"(^|/)(site|dist)-packages/|/lib/python3[\d.]*/|^torch/|^<frozen|^<string>$"
    r"|/dtlib/(measure/clinic|cli)/|/dtlib/__main__\.py$"
)
# py-spy leaves the folders above Python's own modules out, too (ssl.py, http/client.py)
_PYTHONS = sys.stdlib_module_names - {"test", "code", "profile"}  # likely names of users' files
_FAULT_THREAD = re.compile(r"^(?:Current thread|Thread) 0x\w+.*\(most recent call first\):", re.M)
_FAULT_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.M)
_SPY_THREAD = re.compile(r"^Thread (\S+) \([^)]*\)(?:: \"?([^\"\n]*)\"?)?$", re.M)
_SPY_PROCESS = re.compile(r"^Process (\d+): ", re.M)
_SPY_FRAME = re.compile(r"^    (\S.*) \((.+):(\d+)\)$", re.M)


class Frame(NamedTuple):
    """One frame of a stack."""

    file: str
    line: int
    function: str


def _is_foreign(file: str) -> bool:
    """Return whether a file is Python's, a package's or the recorder's, by its path alone."""
    return bool(_FOREIGN.search(file)) or file.split("/")[0].removesuffix(".py") in _PYTHONS


def place(frames: list[Frame]) -> Where:
    """Return the innermost line of user code, and the c10d call that it waits in, if it is in one.

    The frames come innermost first. If no frame is the user's, the result says nothing.
    """
    at = next((i for i, frame in enumerate(frames) if not _is_foreign(frame.file)), None)
    if at is None:
        return Where()
    file, line, function = frames[at]
    called = (frame.function for frame in reversed(frames[:at]) if frame.file.endswith(C10D))
    source = linecache.getline(file, line).strip()  # "" where the file is not on this machine
    call = next((name for name in called if is_waiting(name)), "")
    return Where(call, "", file, line, function, source, is_cell(file), hidden=at > 0 and not call)


def main_thread(text: str) -> list[Frame] | None:
    """Return the main thread's frames, innermost first; None if the text holds no stack.

    Of several stacks in one text, such as a log, it is the last. faulthandler writes the main
    thread last; py-spy says its name, if the program has loaded threading.
    """
    spied, faults = list(_SPY_THREAD.finditer(text)), list(_FAULT_THREAD.finditer(text))
    pids = set(_SPY_PROCESS.findall(text))  # the main thread has its process's number
    begin = [found for found in spied if found[2] == "MainThread" or found[1] in pids]
    if begin:
        part = _until_blank(text[begin[-1].end() :])
        frames = [Frame(file, int(line), name) for name, file, line in _SPY_FRAME.findall(part)]
        return frames or None
    if faults:
        part = text[faults[-1].end() :]
        return [Frame(file, int(n), name) for file, n, name in _fault_frames(part)] or None
    return None


def _until_blank(text: str) -> str:
    return re.split(r"\n(?=Thread )|\n\n", text.lstrip("\n"))[0]


def _fault_frames(text: str) -> list[tuple[str, str, str]]:
    """Return the frames of the first stack of a text; a log may go on after it."""
    found = []
    for line in text.lstrip("\n").splitlines():
        match = _FAULT_FRAME.match(line)
        if match is None:
            break
        found.append((match[1], match[2], match[3]))
    return found
