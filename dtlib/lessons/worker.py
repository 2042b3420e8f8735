"""A process that runs notebooks, one after another: `python -m dtlib.lessons.worker`.

It reads one JSON line a notebook from stdin and answers with JSON lines: each cell as it starts,
and at the end what failed, if anything. A process that lives on saves papermill's slow imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Report = Callable[..., None]


def main() -> None:
    """Answer tasks until stdin closes; then end, with every process that was started."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer

    def report(**event: Any) -> None:
        answers.write(json.dumps(event) + "\n")
        answers.flush()

    for task in iter(_tasks().get, None):
        start = time.monotonic()
        error = cell = None
        try:
            execute(task, report)
        except Lost as lost:
            error, cell = lost.error, lost.cell
        report(event="end", error=error, cell=cell, seconds=time.monotonic() - start)


def _tasks() -> queue.Queue[dict[str, Any] | None]:
    tasks: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            tasks.put(json.loads(line))
        # Whoever asked is gone, perhaps killed: leave nothing behind.
        end_descendants(os.getpid())
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    return tasks


class Lost(Exception):
    """A notebook that did not come to its end: why, and in which cell (counted from 1)."""

    def __init__(self, error: str, cell: int | None) -> None:
        super().__init__(error)
        self.error = error
        self.cell = cell


def execute(task: dict[str, Any], report: Report) -> None:
    """Run one notebook and judge it by what ran, not by what papermill notes in its metadata.

    Parameters
    ----------
    task
        `source`, `target`, `folder` (where it runs), `parameters`, `timeout` (seconds for a cell)
        and `env` (variables for its kernel; None removes one).
    report
        Called with `event="cell", done=…, total=…` as each cell starts.

    Raises
    ------
    Lost
        When a cell failed, took too long or never ran, or when the kernel died.
    """
    import papermill

    _prepare()
    at: dict[str, int] = {}

    def started(done: int, total: int) -> None:
        at["cell"] = done + 1
        report(event="cell", done=done, total=total)

    Engine.started = staticmethod(started)
    for name, value in task["env"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    try:
        papermill.execute_notebook(
            task["source"],
            task["target"],
            parameters=task["parameters"],
            cwd=task["folder"],
            engine_name="dtlib",
            kernel_name="python3",
            progress_bar=False,
            autosave_cell_every=2,
            execution_timeout=task["timeout"],
            start_timeout=60,
        )
    except Exception as error:
        raise Lost(_in_words(error, task["timeout"]), at.get("cell")) from error
    missed = unfinished(json.loads(Path(task["target"]).read_text(encoding="utf-8")))
    if missed is not None:
        raise Lost(*missed)


def unfinished(notebook: dict[str, Any]) -> tuple[str, int] | None:
    """What the first code cell lacks that holds an error or never ran, and its number from 1."""
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] != "code" or not "".join(cell["source"]).strip():
            continue
        allowed = "raises-exception" in cell["metadata"].get("tags", [])
        errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
        if errors and not allowed:
            return f"{errors[0]['ename']}: {errors[0]['evalue']}", number
        if cell["execution_count"] is None:
            return "it never ran", number
    return None


def _in_words(error: Exception, timeout: int) -> str:
    from papermill.exceptions import PapermillExecutionError

    kind = type(error).__name__
    if kind == "CellTimeoutError":
        return f"it took longer than the {timeout} s that a cell may take"
    if kind == "DeadKernelError":
        return "the kernel died (killed, or out of memory)"
    if isinstance(error, PapermillExecutionError):
        message = str(error.evalue).strip() or "no message"
        return f"{error.ename}: {message.splitlines()[-1]}"
    return f"{kind}: {(str(error).strip() or 'no message').splitlines()[-1]}"


class Engine:
    """papermill's engine with a word as each cell starts; filled in by `_prepare`."""

    started: Callable[[int, int], None]


def _prepare() -> None:
    """Teach papermill our engine, and keep nbclient from waiting for ever (its issue 312)."""
    from nbclient.output_widget import OutputWidget
    from papermill.engines import NBClientEngine, papermill_engines

    if "dtlib" in papermill_engines._engines:
        return
    # Replies that an Output widget's mimic sends race with the reply to execute; none is read here.
    OutputWidget.send = lambda self, *args, **kwargs: None

    class Watched(NBClientEngine):
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kwargs: Any) -> Any:
            start = nb_man.cell_start

            def cell_start(cell: Any, cell_index: int | None = None, **more: Any) -> None:
                Engine.started(cell_index or 0, len(nb_man.nb.cells))
                start(cell, cell_index, **more)

            nb_man.cell_start = cell_start  # type: ignore[method-assign]
            return super().execute_managed_notebook(nb_man, kernel_name, **kwargs)

    papermill_engines.register("dtlib", Watched)


def end_descendants(pid: int, patience: float = 3.0) -> None:
    """End all children of a process and theirs, kindly and then not."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(pid).children(recursive=True)
        for step in ("terminate", "kill"):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    getattr(process, step)()
            _, family = psutil.wait_procs(family, timeout=patience)


if __name__ == "__main__":
    main()
