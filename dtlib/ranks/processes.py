"""Start another program, and end it together with everything that it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Ran(NamedTuple):
    """How a command ended: its exit code, or None if it could not start or took too long."""

    code: int | None
    output: str
    errors: str = ""  # its standard error, if that was kept apart

    @property
    def last_line(self) -> str:
        """The last line that is not empty: there Python and most tools say what went wrong."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def answer(self) -> dict[str, Any] | None:
        """The JSON object of the last line, if the command went well and printed one."""
        try:
            found = json.loads(self.last_line) if self.code == 0 else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program that reads no input and whose output, errors included, arrives as text.

    It leads a process group of its own: Ctrl-C in a terminal reaches this process, which ends it.

    Parameters
    ----------
    options
        Options of `subprocess.Popen` that replace these.
    """
    usual: dict[str, Any] = {
        "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
        "text": True, "errors": "replace", "start_new_session": True,
    }  # fmt: skip
    return subprocess.Popen(command, **usual | options)


def run(
    command: Sequence[str],
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    *,
    apart: bool = False,
) -> Ran:
    """Run a program to its end; never raise, and leave no process of its group behind.

    Parameters
    ----------
    timeout
        Seconds that it may take.
    apart
        Keep its standard error in `errors`, not in the output.
    """
    try:
        process = start(command, env=env, stderr=subprocess.PIPE if apart else subprocess.STDOUT)
    except OSError as error:
        return Ran(None, str(error))
    try:
        output, errors = process.communicate(timeout=timeout)
        return Ran(process.returncode, output, errors or "")
    except subprocess.TimeoutExpired:
        return Ran(None, f"no answer within {timeout:g} s")
    finally:
        kill_group(process.pid)
        process.wait()


def end(process: subprocess.Popen[Any], patience: float = 3.0) -> None:
    """End a program and everything that it started; do nothing if it has already ended."""
    if process.poll() is None:
        end_descendants(process.pid, patience)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        process.kill()
        process.wait()


def kill_group(pid: int) -> None:
    """Kill a process that leads a group, and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def end_descendants(pid: int, patience: float = 3.0) -> None:
    """End all children of a process and theirs.

    Parameters
    ----------
    pid
        The process, which itself keeps running.
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


@contextlib.contextmanager
def handled(handler: Callable[..., object], *names: signal.Signals) -> Iterator[None]:
    """Handle signals inside the block; outside the main thread, which alone can, do nothing."""
    main = threading.current_thread() is threading.main_thread()
    before = {name: signal.signal(name, handler) for name in names if main}
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(name, old)


def terminate_as_interrupt() -> contextlib.AbstractContextManager[None]:
    """Make SIGTERM and SIGUSR1 end this process's work as Ctrl-C would."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    return handled(interrupt, signal.SIGTERM, signal.SIGUSR1)
