"""Stacks of ranks that hang already, by py-spy, which needs nothing of the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

from dtlib.config.files import write_atomically
from dtlib.errors import BadInput, Unavailable
from dtlib.measure.clinic.record import STACK

LIMIT = 30.0  # seconds for one stack


def keep_stacks(into: Path, pids: Iterable[int] = ()) -> dict[int, Path]:
    """Write the stack of each rank on this machine into a folder; return the files by rank.

    Parameters
    ----------
    into
        The folder, which exists.
    pids
        The ranks' processes; by default all that torchrun or srun started here.

    Raises
    ------
    BadInput
        No process is a rank, or two are the same one.
    Unavailable
        py-spy is not installed, or may not read a process.
    """
    program = shutil.which("py-spy") or shutil.which(
        "py-spy", path=str(Path(sys.executable).parent)
    )
    if program is None:
        raise Unavailable(
            "`dtlib clinic spy` needs py-spy, which is not installed here; run `pip install"
            " py-spy`."
        )
    written = {}
    for rank, pid in sorted(_ranks(list(pids)).items()):
        written[rank] = into / f"{STACK}{rank}.txt"
        write_atomically(written[rank], _dump(program, rank, pid))
    return written


def _dump(program: str, rank: int, pid: int) -> str:
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"py-spy took over {LIMIT:.0f} s for rank {rank} (PID {pid}).") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it gives no reason"])[0].rstrip(".")
        raise Unavailable(
            f"py-spy cannot read rank {rank} (PID {pid}): {why}; run this as the user who started"
            " the job, or with sudo."
        )
    return done.stdout


def _ranks(pids: list[int]) -> dict[int, int]:
    """Return the PID of each rank; a helper that a rank started has its variables too."""
    there = [_process(pid) for pid in pids] or list(psutil.process_iter())
    variables = {process.pid: _variables(process) for process in there}
    # under srun torchrun itself has SLURM_PROCID, and its ranks have RANK
    name = "RANK" if any("RANK" in some for some in variables.values()) else "SLURM_PROCID"
    found: dict[int, int] = {}
    for process in there:
        text = variables[process.pid].get(name, "")
        helps = not pids and variables.get(_parent(process), {}).get(name) == text
        if not text.isdecimal() or helps:
            continue
        if int(text) in found:
            raise BadInput(
                f"processes {found[int(text)]} and {process.pid} are both rank {text}, of two jobs;"
                " give the PIDs of one of them."
            )
        found[int(text)] = process.pid
    if len(found) < max(1, len(pids)):
        raise BadInput(
            f"{len(found)} of {len(there)} processes are ranks that torchrun or srun started; give"
            " the PIDs of ranks on this machine."
        )
    return found


def _process(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        raise BadInput(f"there is no process {pid}; give PIDs of ranks on this machine.") from None


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0


def _variables(process: psutil.Process) -> dict[str, str]:
    """Return the environment of another Python process; nothing where it may not be read."""
    try:
        return process.environ() if _is_another(process) else {}
    except psutil.Error:
        return {}


def _is_another(process: psutil.Process) -> bool:
    return process.pid != os.getpid() and "python" in process.name()
