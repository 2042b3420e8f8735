"""A process that runs notebooks, one after another: `python -m dtlib.lessons.worker`.

It reads one JSON line per notebook from stdin and answers with JSON lines: each cell as it starts,
and at the end what failed, if anything. Reusing the process saves papermill's slow imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from typing import Any

from dtlib.lessons.notebook import Lost, execute
from dtlib.ranks.processes import end_descendants


def main() -> None:
    """Answer tasks until stdin closes; then end, with every process that was started."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library's prints must not be mistaken for an answer

    def report(**event: Any) -> None:
        answers.write(json.dumps(event) + "\n")
        answers.flush()

    signal.signal(signal.SIGUSR1, lambda *_: _pass_to_kernels())
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
        # The parent is gone, perhaps killed: leave no process behind.
        end_descendants(os.getpid())
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    return tasks


def _pass_to_kernels() -> None:
    """Tell the kernels that time is nearly up: a training run then saves and stops."""
    import psutil

    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "ipykernel_launcher" in child.cmdline():
                child.send_signal(signal.SIGUSR1)


if __name__ == "__main__":
    main()
