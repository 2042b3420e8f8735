"""Processes that others started: end all of them, kindly and then not."""

from __future__ import annotations

import contextlib


def end_descendants(pid: int, patience: float = 3.0) -> None:
    """End all children of a process and theirs.

    Parameters
    ----------
    pid
        The process, which itself goes on.
    patience
        Seconds that they have after SIGTERM, before SIGKILL.
    """
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(pid).children(recursive=True)
        for step in ("terminate", "kill"):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    getattr(process, step)()
            _, family = psutil.wait_procs(family, timeout=patience)
