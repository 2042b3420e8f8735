"""Report on running lessons: a live line on a terminal, plain lines elsewhere, and a table."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtlib.lessons.run import Job


class Reporter:
    """Report the progress of a run; called from the threads that watch the workers."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._live = sys.stdout.isatty()
        self._now: dict[str, str] = {}
        self._lock = threading.Lock()

    def started(self, job: Job) -> None:
        """A notebook begins."""
        self.cell(job, 0, 0)

    def cell(self, job: Job, done: int, total: int) -> None:
        """A cell of the notebook begins."""
        with self._lock:
            self._now[job.name] = f"{job.name} {done}/{total}" if total else f"{job.name} starts"
            self._draw()

    def ended(self, job: Job) -> None:
        """A notebook ran to its end, or failed."""
        with self._lock:
            self._now.pop(job.name, None)
            self.done += 1
            clear = "\r\x1b[K" if self._live else ""
            word = "failed" if job.error else "ok"
            print(
                f"{clear}[{self.done}/{self.total}] {job.name}: {word}, {job.seconds:.1f} s",
                flush=True,
            )
            if job.error:
                print(f"    {where(job)}{job.error}\n    kept: {short(job.target)}", flush=True)
            self._draw()

    def _draw(self) -> None:
        if self._live and self._now:
            print("\r\x1b[K" + " | ".join(self._now.values()), end="", flush=True)

    def table(self, everything: Sequence[Job]) -> None:
        """One row per notebook, with its time."""
        print(f"\n{'lesson':<32}{'notebook':<12}{'result':<8}{'seconds':>8}")
        for job in everything:
            word = "failed" if job.error else "ok"
            print(f"{job.lesson.stem:<32}{job.kind:<12}{word:<8}{job.seconds:>8.1f}")
        failed = sum(job.error is not None for job in everything)
        print(f"{len(everything) - failed} ok, {failed} failed")


def where(job: Job) -> str:
    """`cell 5: `, or nothing when it failed before a cell ran."""
    return f"cell {job.cell}: " if job.cell else ""


def short(path: Path) -> str:
    """The path relative to the current folder, if it is inside that folder."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
