"""What tests see of processes that others started: which live, and which wait."""

from __future__ import annotations

import time

import psutil


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
