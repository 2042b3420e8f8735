"""Start another program, and end it with all that it started."""

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
    errors: str = ""  # what it said there, where that was kept apart

    @property
    def last_line(self) -> str:
        """The last line that is not empty: where Python and most tools say what was wrong."""
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
    """Start a program that reads nothing and whose lines, errors among them, come as text.

    It leads a process group of its own: Ctrl-C in a terminal is for this process, which ends it.

    Parameters
    ----------
    options
        Of `subprocess.Popen`, in the place of these.
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
    """Run a program to its end; never raise, never leave a process of its group behind.

    Parameters
    ----------
    timeout
        Seconds that it may take.
    apart
        Keep what it writes to its standard error in `errors`, not among the output.
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
    """End a program and all that it started; nothing happens when it is done."""
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


@contextlib.contextmanager
def handled(handler: Callable[..., object], *names: signal.Signals) -> Iterator[None]:
    """Handle signals; signal handlers belong to the main thread, any other does without."""
    main = threading.current_thread() is threading.main_thread()
    before = {name: signal.signal(name, handler) for name in names if main}
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(name, old)


def terminate_as_interrupt() -> contextlib.AbstractContextManager[None]:
    """Make SIGTERM end what this process does as Ctrl-C would: with all that it started."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    return handled(interrupt, signal.SIGTERM)
