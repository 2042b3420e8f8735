"""The fork server: a process with torch loaded and one thread, which forks a rank when asked.

When its socket closes, the parent is gone: the server then ends its ranks, with everything that
they started, and itself. For each rank the parent sends three descriptors: the rank's pipe, its
output, and a pipe into which the server writes the rank's exit status.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import selectors
import signal
import socket
import sys

from dtlib.ranks import worker  # loads torch
from dtlib.ranks.processes import kill_group

# A terminal, Slurm or docker sends these to every process; the parent decides what they do.
_FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def main(fd: int) -> None:
    """Serve the parent on the socket `fd` until it closes."""
    parent, requests = os.getppid(), socket.socket(fileno=fd)
    for name in _FOR_THE_PARENT:
        signal.signal(name, signal.SIG_IGN)
    wake, wake_in = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.freeze()  # ranks share the pages of everything that is loaded
    statuses: dict[int, int] = {}
    try:
        _loop(parent, requests, wake, statuses)
    finally:
        for pid in statuses:
            kill_group(pid)


def _loop(parent: int, requests: socket.socket, wake: int, statuses: dict[int, int]) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        requests.send(b"r")  # ready
        more = True
        while os.getppid() == parent:
            events = selector.select(1.0)
            if more and not events:
                more = _load_more()
            for key, _ in events:
                if key.fd == wake:
                    os.read(wake, 4096)
                elif not _serve(requests, statuses):
                    return
            _reap(statuses)


def _load_more() -> bool:
    """Load once, in an idle second, what DDP would load in each rank (1.3 s of one core)."""
    with contextlib.suppress(Exception):  # ranks can load it themselves, later
        importlib.import_module("torch._dynamo")
        gc.freeze()
    return False


def _serve(requests: socket.socket, statuses: dict[int, int]) -> bool:
    try:
        message, fds, _, _ = socket.recv_fds(requests, 1, 3)
    except OSError:
        return False
    if not message:
        return False
    line, output, status = fds
    pid = os.fork()
    if pid == 0:
        try:
            _become_rank(requests, line, output, [status, *statuses.values()])
        finally:
            os._exit(1)
    os.close(line)
    os.close(output)
    statuses[pid] = status
    return True


def _become_rank(requests: socket.socket, line: int, output: int, others: list[int]) -> None:
    server = os.getppid()
    _die_with_parent()
    if os.getppid() != server:
        return
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for name in _FOR_THE_PARENT:
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    requests.close()
    for fd in others:
        os.close(fd)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    worker.main(line)


def _die_with_parent() -> None:
    """Ask Linux to kill this rank when the server is gone, even if it hangs in C."""
    if sys.platform.startswith("linux"):
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _reap(statuses: dict[int, int]) -> None:
    while statuses:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        fd = statuses.pop(pid)
        with contextlib.suppress(OSError):  # the parent no longer listens
            os.write(fd, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(fd)
