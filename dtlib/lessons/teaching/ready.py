"""The evening before a workshop: examine this machine, run the lessons, say it in one line."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dtlib import __version__
from dtlib.config.files import writable_folder
from dtlib.errors import Unavailable
from dtlib.learn.source import Lesson, lessons
from dtlib.lessons.run import Job, refuse_numbers, run_notebooks
from dtlib.lessons.validate import validate_all
from dtlib.ranks import processes

DOCTOR = [sys.executable, "-m", "dtlib", "doctor"]
PATIENCE = 300.0  # seconds; the doctor's slowest probe has 120
GIB = 2**30


def ready(chosen: Sequence[Lesson], out: Path, *, jobs: int = 2, timeout: int = 300) -> int:
    """Run the doctor and the student's notebooks of these lessons; print one line to send back.

    Parameters
    ----------
    chosen, out, jobs, timeout
        As for `dtlib lessons run`.

    Returns
    -------
    int
        0; 1 when a lesson failed; 69 when the doctor says that lessons cannot run here, and then
        none is run.

    Raises
    ------
    BadInput
        For a broken source, numbers below 1, or a folder that cannot be written to.
    """
    refuse_numbers(timeout, jobs)
    validate_all(lessons(chosen[0].room.parent))
    folder = writable_folder(out).resolve() / "student"
    print("The doctor examines this machine.", flush=True)
    ran = _ask_doctor()
    print(ran.output)
    everything: list[Job] = []
    code = Unavailable.exit_code
    if ran.code == 0:
        everything = [Job(one, "student", folder / f"{one.stem}.ipynb") for one in chosen]
        run_notebooks(everything, {}, jobs, timeout).table(everything)
        code = 1 if any(job.error for job in everything) else 0
    verdict = "ready" if code == 0 else "not ready"
    found = [f"doctor {'ok' if ran.code == 0 else _missing(ran)}", *map(_result, everything)]
    print("\nSend this line to your instructor:\n")
    print(" | ".join([verdict, _machine(), _versions(), ", ".join(found)]))
    return code


def _ask_doctor() -> processes.Ran:
    """Run the doctor; whatever ends this also ends the probes, which lead groups of their own."""
    process = processes.start(DOCTOR)
    try:
        output, _ = process.communicate(timeout=PATIENCE)
        return processes.Ran(process.returncode, output)
    except subprocess.TimeoutExpired:
        return processes.Ran(None, f"The doctor gave no answer within {PATIENCE:g} s.")
    finally:
        processes.end(process)


def _result(job: Job) -> str:
    """`07 ok 12 s`; of a failure the cell, but not its message, which may hold a path."""
    if job.error:
        return f"{job.lesson.number} failed" + (f" in cell {job.cell}" if job.cell else "")
    return f"{job.lesson.number} ok {job.seconds:.0f} s"


def _missing(ran: processes.Ran) -> str:
    """The names of what the doctor misses, from its last line, or how it ended."""
    if ran.code == Unavailable.exit_code and ": " in ran.last_line:
        return "misses " + ran.last_line.rpartition(": ")[2].rstrip(".")
    return f"ended with {'no answer' if ran.code is None else f'exit code {ran.code}'}"


def _machine() -> str:
    """System, kind of processor, cores and memory; no name of the machine or of its user."""
    import psutil

    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    if "microsoft" in platform.release().lower():
        system += " in WSL2"
    memory = psutil.virtual_memory().total / GIB
    return f"{system} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB"


def _versions() -> str:
    """Python, and the packages on which a lesson's result depends most."""
    found = [f"Python {platform.python_version()}", f"dtlib {__version__}"]
    for name in ("torch", "deepspeed"):  # DeepSpeed has no build for macOS
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)
