"""Execute one notebook with papermill, and judge it by what ran."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dtlib.config.files import write_atomically

Report = Callable[..., None]


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
    from papermill.engines import papermill_engines

    _prepare()
    at: dict[str, int] = {}

    def started(done: int, total: int) -> None:
        at["cell"] = done + 1
        report(event="cell", done=done, total=total)

    papermill_engines.register("dtlib", _watched_engine(started))
    for name, value in task["env"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    try:
        papermill.execute_notebook(
            task["source"], task["target"], parameters=task["parameters"], cwd=task["folder"],
            engine_name="dtlib", kernel_name="python3", progress_bar=False, autosave_cell_every=2,
            execution_timeout=task["timeout"], start_timeout=60,
        )  # fmt: skip
    except Exception as error:
        raise Lost(_in_words(error, task["timeout"]), at.get("cell")) from error
    missed = unfinished(json.loads(Path(task["target"]).read_text(encoding="utf-8")))
    if missed is not None:
        raise Lost(*missed)


def unfinished(notebook: dict[str, Any]) -> tuple[str, int] | None:
    """Why the first failing code cell is not done (error or never run), and its number from 1."""
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] != "code" or not "".join(cell["source"]).strip():
            continue
        allowed = "raises-exception" in cell["metadata"].get("tags", [])
        errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
        if errors and not allowed:
            return f"{errors[0]['ename']}: {_last_line(errors[0]['evalue'])}", number
        if cell["execution_count"] is None:
            return "it never ran", number
    return None


def _in_words(error: Exception, timeout: int) -> str:
    kind = type(error).__name__
    if kind == "CellTimeoutError":
        return f"it took longer than the {timeout} s that a cell may take"
    if kind == "DeadKernelError":
        return "the kernel died (killed, or out of memory)"
    return f"{kind}: {_last_line(str(error))}"


def _last_line(text: str) -> str:
    return (text.strip() or "no message").splitlines()[-1]


@functools.cache
def _prepare() -> None:
    """Mend what papermill and nbclient get wrong; once a process."""
    from nbclient.output_widget import OutputWidget
    from papermill import execute as papermill_execute
    from papermill.iorw import papermill_io

    # nbclient's issue 312: replies that an Output widget's mimic sends race with the reply to
    # execute, and a notebook then waits for ever. None of them is read here.
    setattr(OutputWidget, "send", lambda self, *args, **kwargs: None)  # noqa: B010
    # It knows neither the tag raises-exception nor that SystemExit(0) ends a notebook early.
    papermill_execute.raise_for_execution_errors = lambda notebook, path: None
    papermill_io.register("/", _whole_files())


def _whole_files() -> Any:
    """papermill's files, written whole: a kill while it saves must not leave an empty notebook."""
    from papermill.iorw import LocalHandler

    class WholeFiles(LocalHandler):
        def write(self, buf: str, path: str) -> None:
            write_atomically(Path(path), buf)

    return WholeFiles()


def _watched_engine(started: Callable[[int, int], None]) -> Any:
    """papermill's engine, which tells `started` of each cell."""
    from papermill.engines import NBClientEngine

    class Watched(NBClientEngine):
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kwargs: Any) -> Any:
            start = nb_man.cell_start

            def cell_start(cell: Any, cell_index: int | None = None, **more: Any) -> None:
                started(cell_index or 0, len(nb_man.nb.cells))
                start(cell, cell_index, **more)

            vars(nb_man)["cell_start"] = cell_start
            return super().execute_managed_notebook(nb_man, kernel_name, **kwargs)

    return Watched
