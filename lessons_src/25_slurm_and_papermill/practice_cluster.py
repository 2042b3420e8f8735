"""A stand-in for a Slurm allocation: batch scripts run in a real bash, on a machine without Slurm.

`srun` starts its command once for each task, one after the other, with the variables that Slurm
sets there; `scontrol show hostnames` prints the nodes, and `hostname` the node; `torchrun` and
`python` only note the words that they were called with.
Variables, quotes, signals and exit codes are handled by bash itself.

References
----------
Slurm's variables: https://slurm.schedmd.com/sbatch.html (of a script) and srun.html (of a task),
"OUTPUT ENVIRONMENT VARIABLES"; HOSTNAME, which it sets for a script to the name of its node.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .practice_programs import HOSTNAME, PYTHON, SCONTROL, SRUN, TORCHRUN, TRAIN

JOB = "4711"
SECONDS = 4.0  # that a script may take besides its training
AFTER = 3.0  # seconds that it may still take when its training has ended
SETTLED = 0.4  # seconds in which a script has set its trap, where the system does not say
# A process that is forked while a program file is being written keeps that file open until it has
# become bash, and until then the program cannot be run: "Text file busy", exit code 126.
_FORKING = threading.Lock()


@dataclass(frozen=True)
class Started:
    """A program that a script started on a node, with the words that it was called with."""

    node: str
    program: str
    words: list[str]


@dataclass(frozen=True)
class Ended:
    """How a script ended.

    Attributes
    ----------
    code
        The script's exit code, 128 + n if signal n ended it; None when its time was up.
    output
        What it printed.
    started
        Each call of `torchrun` or `python`, in order.
    events
        Seconds since the signal (without one, since the start), and what happened: "ready", "told",
        "checkpoint", "end", "requeue ID", "over" (the script itself).
    killed
        Whether a signal ended it. Otherwise it ended with that code by itself.
    """

    code: int | None
    output: str
    started: list[Started] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    killed: bool = False

    def when(self, what: str) -> float | None:
        """Seconds at which something first happened; None if it never did."""
        return next((at for at, event in self.events if event.split()[0] == what), None)


@dataclass(frozen=True)
class Training:
    """What the training of the practice cluster does.

    Parameters
    ----------
    life
        Seconds until it ends by itself.
    code
        With which exit code; -9 for a signal 9.
    saving
        Seconds that a checkpoint takes.
    told
        Whether SIGUSR1 is sent to the job once the training runs.
    twice
        Whether a second SIGUSR1 is sent while the training saves.
    ends
        The exit code of a training that was told: 75, or 0 where it happened to be done.
    """

    life: float = 0.2
    code: int = 0
    saving: float = 0.2
    told: bool = False
    twice: bool = False
    ends: int = 75


def syntax_error(script: str) -> str:
    """The syntax error that bash finds in the text of a script; empty if there is none."""
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    first = (done.stderr.strip().splitlines() or [""])[0]
    return first.removeprefix("bash: ")


def run(script: str, arguments: Sequence[str] = (), nodes: int = 1, gpus: int = 1) -> Ended:
    """Run a batch script on `nodes` nodes of `gpus` GPUs, none of which needs to exist.

    Parameters
    ----------
    script
        The text; `"$@"` in it are the arguments.
    arguments
        Words after the script's name.
    """
    with _folder() as folder, _bash(script, arguments, folder, _variables(nodes, gpus)) as bash:
        return _ended(bash, folder, time.time(), threading.Event(), SECONDS)


def train(script: str, training: Training, stop: threading.Event | None = None) -> Ended:
    """Run a batch script whose `"$@"` is a training, and tell the job to stop if asked for.

    Once `stop` is set, the outcome is no longer needed, and the script is killed.
    """
    stop = stop or threading.Event()
    with _folder() as folder:
        settings = {"LIFE": training.life, "CODE": training.code, "SAVING": training.saving,
                    "ENDS": training.ends}  # fmt: skip
        variables = _variables(1, 1) | {name: str(value) for name, value in settings.items()}
        command = [sys.executable, "-S", str(folder / "train.py")]
        with _bash(script, command, folder, variables) as bash:
            zero = time.time()
            limit = SECONDS + training.life
            if training.told and _until(lambda: "ready" in _events(folder), bash, stop, limit):
                # the script may set its trap after the training was started
                _until(lambda: _has_trap(bash), bash, stop, SETTLED)
                zero = time.time()
                bash.send_signal(signal.SIGUSR1)
            if training.twice and _until(lambda: "told" in _events(folder), bash, stop, limit):
                stop.wait(0.1)
                bash.send_signal(signal.SIGUSR1)
            return _ended(bash, folder, zero, stop, limit, "told" if training.told else "")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="practice-") as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        (folder / "train.py").write_text(TRAIN)
        (folder / "scontrol.py").write_text(SCONTROL)
        python = shlex.quote(sys.executable)
        scontrol = f'#!/bin/bash\nexec {python} -S "$PRACTICE/scontrol.py" "$@"\n'
        programs = {
            "srun": SRUN, "torchrun": TORCHRUN, "python": PYTHON, "python3": PYTHON,
            "hostname": HOSTNAME, "scontrol": scontrol,
        }  # fmt: skip
        with _FORKING:
            for program, text in programs.items():
                (folder / "bin" / program).write_text(text)
                (folder / "bin" / program).chmod(0o755)
        yield folder


def _variables(nodes: int, gpus: int) -> dict[str, str]:
    """The environment of a batch script: it runs on the first node, as that node's first task."""
    names = "n1" if nodes == 1 else f"n[1-{nodes}]"
    return {
        "SLURM_JOB_ID": JOB, "SLURM_JOBID": JOB, "HOSTNAME": "n1",
        "SLURM_JOB_NODELIST": names, "SLURM_NODELIST": names,
        "SLURM_NNODES": str(nodes), "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NODEID": "0",
        "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURMD_NODENAME": "n1",
        "SLURM_GPUS_ON_NODE": str(gpus), "SLURM_CPUS_ON_NODE": "8", "SLURM_NTASKS": str(nodes),
        "SLURM_NPROCS": str(nodes),
    }  # fmt: skip


@contextmanager
def _bash(
    script: str, arguments: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    mine = {"PRACTICE": str(folder), "PATH": path, "LC_ALL": "C"}  # bash speaks English
    (folder / "script").write_text(script)
    with _FORKING, (folder / "output").open("w") as output:
        process = subprocess.Popen(
            ["bash", str(folder / "script"), *arguments], stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            cwd=folder, env={**clean, **variables, **mine},
        )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until(
    happened: Callable[[], object], bash: subprocess.Popen[str], stop: threading.Event, limit: float
) -> bool:
    end = time.monotonic() + limit
    while not happened():
        if bash.poll() is not None or time.monotonic() > end or stop.wait(0.02):
            return False
    return True


def _has_trap(bash: subprocess.Popen[str]) -> bool:
    """Whether bash has set a trap for SIGUSR1, as far as the system says so."""
    try:
        status = Path(f"/proc/{bash.pid}/status").read_text()
    except OSError:
        return False
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGUSR1 - 1) & 1)


def _events(folder: Path) -> str:
    path = folder / "events"
    return path.read_text() if path.exists() else ""


def _ended(
    bash: subprocess.Popen[str], folder: Path, zero: float, stop: threading.Event, limit: float,
    due: str = "",
) -> Ended:  # fmt: skip
    end, trains = time.monotonic() + limit, True
    while bash.poll() is None and time.monotonic() < end and not stop.is_set():
        if trains and any(last in _events(folder) for last in (" end\n", " checkpoint\n")):
            end, trains = time.monotonic() + AFTER, False
        time.sleep(0.01)
    code, over = bash.poll(), time.time()
    while _left_behind(bash) and time.time() < over + 0.5 and not stop.is_set():
        if (noted := _events(folder)) and due in noted:
            break  # a training that the script left behind has said that it runs, or was told
        time.sleep(0.02)
    lines = [line.partition(" ")[::2] for line in _events(folder).splitlines()]
    events = [(float(at) - zero, what) for at, what in lines]
    if code is not None:
        events.append((over - zero, "over"))
    return Ended(
        code if code is None or code >= 0 else 128 - code,
        (folder / "output").read_text(errors="replace"),
        _started(folder / "started"),
        sorted(events),
        code is not None and code < 0,
    )


def _left_behind(bash: subprocess.Popen[str]) -> bool:
    try:
        os.killpg(bash.pid, 0)
    except (ProcessLookupError, PermissionError):  # macOS: a group of zombies
        return False
    return True


def _started(path: Path) -> list[Started]:
    if not path.exists():
        return []
    found: list[list[str]] = [[]]
    for word in path.read_bytes().decode(errors="replace").split("\0"):
        if word == "\n":
            found.append([])
        else:
            found[-1].append(word)
    return [Started(words[0], words[1], words[2:]) for words in found if len(words) > 1]
