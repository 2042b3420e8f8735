"""Run lessons from top to bottom, some at a time, and say truly how each of them ended."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtlib.config.files import writable_folder
from dtlib.errors import BadInput
from dtlib.learn.source import Lesson, lessons
from dtlib.lessons.build import derive
from dtlib.lessons.parameters import read_parameters
from dtlib.lessons.reporting import Reporter
from dtlib.lessons.validate import validate_all
from dtlib.ranks import processes


@dataclass
class Job:
    """One notebook to run, and how it ended."""

    lesson: Lesson
    kind: str
    target: Path
    work: Path | None = None
    task: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    cell: int | None = None
    seconds: float = 0.0

    @property
    def folder(self) -> Path:
        """Where it runs: beside the executed notebook, unless somebody said where."""
        return self.work or self.target.parent

    @property
    def name(self) -> str:
        """`07 student`"""
        return f"{self.lesson.number} {self.kind}"

    def prepare(self, temporary: Path, values: dict[str, Any], timeout: int) -> None:
        """Write what is to be executed below `temporary`, and the task that says how."""
        source = temporary / self.kind / self.target.name
        for folder in (source.parent, self.target.parent, self.folder):
            folder.mkdir(parents=True, exist_ok=True)
        for stale in self.requeues():
            stale.unlink(missing_ok=True)
        source.write_text(derive(self.lesson, self.kind), encoding="utf-8")
        env = {
            "DTLIB_LESSONS": str(self.lesson.room.parent), "PYTHONWARNINGS": warnings_of_kernels(),
            "DTLIB_STRICT": None if self.kind == "student" else "1",
        }  # fmt: skip
        self.task = {
            "source": str(source), "target": str(self.target), "folder": str(self.folder),
            "parameters": values, "timeout": timeout, "env": env,
        }  # fmt: skip

    def requeues(self) -> list[Path]:
        """The file that says that a run of the notebook was stopped and should be resumed."""
        return list(self.folder.glob("runs/**/requeue"))


def run_all(
    chosen: Sequence[Lesson],
    *,
    kinds: Sequence[str],
    out: Path,
    work: Path | None = None,
    jobs: int = 2,
    parameters: Sequence[str] = (),
    timeout: int = 300,
) -> int:
    """Run the notebooks of the chosen lessons.

    The student's must reach its end with nothing written; the instructor's must pass every check.

    Parameters
    ----------
    chosen, kinds
        Which lessons, and which of `student` and `instructor`.
    out
        Where the executed notebooks go, a failed one included: `out/kind/stem.ipynb`.
    work
        Where they run, each kind in a folder of its own (default: beside the notebooks).
    jobs
        Notebooks at a time.
    parameters
        `name=value` texts; values are read as YAML.
    timeout
        Seconds that one cell may take.

    Returns
    -------
    int
        0; 1 when a notebook failed; 75 when a signal stopped one (run it again to resume it).

    Raises
    ------
    BadInput
        For a broken source or an unknown parameter.
    """
    refuse_numbers(timeout, jobs)
    if chosen:
        validate_all(lessons(chosen[0].room.parent))
    values = read_parameters(chosen, parameters)
    out = writable_folder(out).resolve()
    place = writable_folder(work, "--work").resolve() if work else out
    everything = [
        Job(one, kind, out / kind / f"{one.stem}.ipynb", place / kind)
        for one, kind in itertools.product(chosen, kinds)
    ]
    run_notebooks(everything, values, jobs, timeout).table(everything)
    if any(job.error and not _stopped(job) for job in everything):
        return 1
    return 75 if any(_requeue(job) for job in everything) else 0


def refuse_numbers(timeout: int, jobs: int) -> None:
    """Refuse a time-out or a number of jobs below 1."""
    if timeout < 1 or jobs < 1:
        raise BadInput(f"--timeout {timeout} and --jobs {jobs} must be at least 1.")


def run_notebooks(
    everything: list[Job], values: dict[str, Any], jobs: int, timeout: int
) -> Reporter:
    """Write what is to be executed to a folder that goes away again, and run it."""
    with tempfile.TemporaryDirectory(prefix="dtlib-lessons-") as folder:
        temporary = Path(folder)
        for job in everything:
            job.prepare(temporary, values, timeout)
        reporter = Reporter(len(everything))
        with processes.terminate_as_interrupt():
            run_jobs(everything, jobs, kernel_environment(temporary), timeout, reporter)
    return reporter


def warnings_of_kernels(env: Mapping[str, str] = os.environ) -> str | None:
    """Let a lesson use nothing that is about to change, but end no job for a library's warning."""
    return env.get("PYTHONWARNINGS") if "SLURM_JOB_ID" in env else "error::FutureWarning"


def kernel_environment(temporary: Path) -> dict[str, str]:
    """Variables for the workers: `python3` is this Python, and nothing of the user's counts."""
    spec = temporary / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    return os.environ | {
        "JUPYTER_PATH": str(temporary),  # looked at before all other places
        "JUPYTER_RUNTIME_DIR": str(temporary / "runtime"),
        "IPYTHONDIR": str(temporary / "ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",  # says nothing about a change of folders
    }


def run_jobs(
    everything: list[Job], jobs: int, env: dict[str, str], timeout: int, reporter: Reporter
) -> None:
    """Run notebooks, `jobs` at a time; how each of them ended is written into its job."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    # Later lessons take longer: they begin, so that at the end none runs alone.
    for job in reversed(everything):
        waiting.put(job)
    # A start, and the time-out of a cell, stay under this; whoever is silent longer is stuck.
    workers = [Worker(env, silence=timeout + 120) for _ in range(min(jobs, len(everything)))]

    def serve(worker: Worker) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                job = waiting.get_nowait()
                reporter.started(job)
                worker.run(job, functools.partial(reporter.cell, job))
                if not worker.closed:
                    reporter.ended(job)

    def warn() -> None:
        for worker in workers:
            worker.warn()

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    try:
        with processes.handled(lambda *_: warn(), signal.SIGUSR1):  # a job's time is nearly up
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)  # an interrupt comes through between two looks
    finally:
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
        for worker in workers:
            worker.close()


class Worker:
    """A worker process, started when it is needed and again when it died."""

    def __init__(self, env: dict[str, str], silence: float) -> None:
        self.env = env
        self.silence = silence
        self.closed = False
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  (see close)

    def run(self, job: Job, on_cell: Callable[[int, int], None]) -> None:
        """Have one notebook run; its end is written into the job."""
        if self._process is None:
            command = [sys.executable, "-m", "dtlib.lessons.worker"]
            streams = {"stdin": subprocess.PIPE, "stderr": self._errors}
            self._process = processes.start(command, env=self.env, **streams)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        cell = None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job.task) + "\n")
            process.stdin.flush()
        while True:
            guard = threading.Timer(self.silence, self._kill)
            guard.start()
            line = process.stdout.readline()
            guard.cancel()
            if not line:
                break
            event = json.loads(line)
            if event["event"] == "end":
                job.error, job.cell, job.seconds = event["error"], event["cell"], event["seconds"]
                return
            cell = event["done"] + 1
            on_cell(event["done"], event["total"])
        self._kill()
        self._process = None
        job.error, job.cell = self._last_words(process.wait()), cell

    def _last_words(self, code: int) -> str:
        if code < 0:
            return f"the process that ran it was killed (signal {-code})"
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or ["it said nothing"])[-1]
        return f"the process that ran it died (exit code {code}): {last}"

    def _kill(self) -> None:
        if self._process is not None:
            processes.end_descendants(self._process.pid)
            self._process.kill()

    def warn(self) -> None:
        """Tell its kernel that time is nearly up."""
        if self._process is not None:
            self._process.send_signal(signal.SIGUSR1)

    def close(self) -> None:
        """End the process with its kernels and their ranks."""
        self.closed = True
        if self._process is not None:
            self._kill()
            self._process.wait()
        self._errors.close()


def _stopped(job: Job) -> bool:
    """Tell whether it ended because a signal stopped a run, which wrote a checkpoint."""
    return (job.error or "").startswith("Stopped:")


def _requeue(job: Job) -> bool:
    return _stopped(job) or bool(job.requeues())
