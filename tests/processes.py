"""Processes in tests: run one to its end; see which of those that others started live and wait."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil


def run(
    *words: str | Path,
    timeout: float = 120.0,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with `text` to read; with it ends whatever it started.

    `env` is its whole environment; without it, it has this one.
    """
    with subprocess.Popen(
        words, cwd=cwd, env=env, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(text, timeout=timeout)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def python(
    *words: str | Path,
    timeout: float = 120.0,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run this Python with these words to its end, as `run` does."""
    return run(sys.executable, *words, timeout=timeout, cwd=cwd, env=env)


def free_port() -> int:
    """A port for a server that starts later: no program's outgoing connection is given it."""
    while True:
        port = random.randrange(20_000, 32_000)  # Linux gives 32768 and above to connections
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def living(pids: list[int]) -> list[int]:
    """Those that are neither gone nor zombies."""
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            pass
    return found


def gone(pids: list[int], seconds: float = 30.0) -> bool:
    """Wait until none of them lives: 5 s at most on an idle machine, longer on a busy one."""
    end = time.monotonic() + seconds
    while living(pids) and time.monotonic() < end:
        time.sleep(0.05)
    return not living(pids)


def wait_until_they_wait(pids: list[int], seconds: float = 1.0) -> None:
    """Wait until the main threads of these processes have slept for so long: they wait.

    One that only has no core is runnable, and not asleep, however busy the machine.
    """
    end, since = time.monotonic() + 60, time.monotonic()
    while time.monotonic() < since + seconds:
        assert time.monotonic() < end, "one of them is still at work"
        time.sleep(0.05)
        if any(psutil.Process(pid).status() != psutil.STATUS_SLEEPING for pid in pids):
            since = time.monotonic()
