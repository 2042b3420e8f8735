"""In the parent: warm processes that become ranks.

Linux: our fork server, one process that has torch loaded and forks in 10 ms. Elsewhere, and with
DTLIB_START=spawn: spare workers that have torch loaded, refilled in the background, since forking
after torch was loaded is not safe on macOS.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import processes
from dtlib.ranks.environment import HASH_SEED, hash_seed, start_limit

_ROOT = str(Path(__file__).parents[2])
# One thread: a fork copies only the calling one. Ranks set their own numbers with each job.
_ENV = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000", "PYTHONUNBUFFERED": "1"}  # fmt: skip


def start_method() -> str:
    """Say how ranks start here, "forkserver" or "spawn"; DTLIB_START overrides it."""
    method = os.environ.get("DTLIB_START") or (
        "forkserver" if sys.platform.startswith("linux") else "spawn"
    )
    if method not in ("forkserver", "spawn"):
        raise BadInput(f"DTLIB_START={method!r} is neither forkserver nor spawn.")
    return method


class Process:
    """A process that waits for a job, or does one: its pipe, its output, how it ended.

    `host` is the node that it runs on, if the launch spans several.
    """

    host = ""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        self.theirs, self.output_in = theirs, write
        self.connection, self.output = Connection(ours.detach()), read
        os.set_blocking(read, False)
        self.pid = 0
        self._code: int | None = None

    def handed_over(self) -> None:
        """Close the child's ends, so that its death is seen here."""
        self.theirs.close()
        os.close(self.output_in)

    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal, or `None` while it runs."""
        raise NotImplementedError

    def wait(self, seconds: float) -> int | None:
        """Wait at most `seconds` for the end, and return the exit code."""
        end = time.monotonic() + seconds
        while self.exit_code() is None and time.monotonic() < end:
            time.sleep(0.002)
        return self.exit_code()

    def code_of_death(self) -> int | None:
        """Return the exit code of a process that has closed its pipe without a report."""
        return self.wait(1.0)

    def kill(self) -> None:
        """Kill the process and what it started (it leads a process group of its own)."""
        if self.pid:
            processes.kill_group(self.pid)

    def close(self) -> None:
        """Close this side; a process that is still running then ends by itself."""
        self.connection.close()
        os.close(self.output)


class Forked(Process):
    """A fork of the server, which tells us how it ended."""

    def __init__(self, server: ForkServer) -> None:
        super().__init__()
        self.server = server
        self.status, status_in = os.pipe()
        os.set_blocking(self.status, False)
        try:
            theirs = [self.theirs.fileno(), self.output_in, status_in]
            socket.send_fds(server.requests, [b"f"], theirs)
        finally:
            os.close(status_in)
            self.handed_over()

    def exit_code(self) -> int | None:
        if self._code is None:
            with contextlib.suppress(BlockingIOError):
                text = os.read(self.status, 16)
                self._code = int(text or -signal.SIGKILL)  # the server died, and with it its ranks
        return self._code

    def close(self) -> None:
        super().close()
        os.close(self.status)


class Spawned(Process):
    """A worker started by this process."""

    def __init__(self) -> None:
        super().__init__()
        fd = self.theirs.fileno()
        self.popen = _python("worker", f"main({fd})", fd, self.output_in, self.output_in)
        self.handed_over()
        self.pid = self.popen.pid

    def exit_code(self) -> int | None:
        return self.popen.poll()


class ForkServer:
    """The server process and the socket on which it takes requests."""

    def __init__(self) -> None:
        self.requests, theirs = socket.socketpair()
        self.errors: IO[Any] = tempfile.TemporaryFile()  # noqa: SIM115
        fd = theirs.fileno()
        self.popen = _python("server", f"main({fd})", fd, None, self.errors)
        theirs.close()
        self._ready = False

    def alive(self) -> bool:
        return self.popen.poll() is None

    def wait_ready(self) -> None:
        """Wait until torch is loaded there (a second or two, once)."""
        if self._ready:
            return
        self.requests.settimeout(start_limit())
        try:
            self._ready = self.requests.recv(1) == b"r"
        except TimeoutError:
            self.close()
            raise DtlibError(
                f"The process that starts ranks had not loaded torch after {start_limit():g} s; "
                "set DTLIB_START_LIMIT=600 to wait longer."
            ) from None
        if not self._ready:
            self.errors.seek(0)
            lines = self.errors.read().decode(errors="replace").strip().splitlines()
            self.close()
            raise DtlibError(
                "The process that starts ranks ended before it was ready"
                + (f": {lines[-1]}" if lines else "; try again, or set DTLIB_START=spawn.")
            )

    def close(self) -> None:
        self.requests.close()
        try:
            self.popen.wait(2)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C at exit
            self.popen.kill()
            self.popen.wait()


def _python(module: str, call: str, fd: int, out: Any, err: Any) -> subprocess.Popen[bytes]:
    code = f"import sys; sys.path.insert(0, {_ROOT!r}); import dtlib.ranks.{module} as m; m.{call}"
    return processes.start(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL if out is None else out,
        stderr=err,
        pass_fds=(fd,),
        # torch's C++ warnings, such as of a host name that does not resolve, do not help a student
        env={"TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ, **_ENV, HASH_SEED: hash_seed()},
        cwd="/",
    )


class Pool:
    """The warm processes of this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.server: ForkServer | None = None
        self.spares: list[Spawned] = []
        self.lock = threading.Lock()
        atexit.register(self.close)

    def warm(self, ranks: int) -> None:
        """Start the processes that `take(ranks)` needs, without waiting for them."""
        with self.lock:
            self._warm(ranks)

    def _warm(self, ranks: int) -> None:
        if start_method() == "forkserver":
            if self.server is None or not self.server.alive():
                self.server = ForkServer()
            return
        self.spares = [spare for spare in self.spares if spare.exit_code() is None]
        while len(self.spares) < ranks:
            self.spares.append(Spawned())

    def take(self, ranks: int) -> list[Process]:
        """Return `ranks` processes that wait for a job."""
        with self.lock:
            self._warm(ranks)
            if start_method() == "spawn":
                taken, self.spares = self.spares[:ranks], self.spares[ranks:]
                return list(taken)
            assert self.server is not None
            self.server.wait_ready()
            return [Forked(self.server) for _ in range(ranks)]

    def close(self) -> None:
        """End the server and the spares; the ranks of a launch end with the server."""
        if os.getpid() != self.owner:
            return
        with self.lock:
            if self.server is not None:
                self.server.close()
                self.server = None
            for spare in self.spares:
                spare.kill()
                spare.wait(2)
                spare.close()
            self.spares = []


_pool: Pool | None = None


def pool() -> Pool:
    """Return this process's pool; a fork of the process gets its own."""
    global _pool
    if _pool is None or _pool.owner != os.getpid():
        _pool = Pool()
    return _pool
