"""Output and progress of ranks, as they arrive: in a notebook, on a terminal, in a log."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from dtlib.errors import counted

OnProgress = Callable[[int, int, dict[str, Any]], None]


class View(Protocol):
    """Shows output and progress as they arrive."""

    def line(self, rank: int, text: str) -> None: ...
    def progress(self, done: int, total: int, numbers: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


def in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel (IPython in a terminal is not)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None  # type: ignore[attr-defined]
    return hasattr(shell, "kernel")


class Silent:
    """Shows nothing; progress goes to the caller's function, if there is one."""

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self._on_progress = on_progress

    def line(self, rank: int, text: str) -> None:
        pass

    def progress(self, done: int, total: int, numbers: dict[str, Any]) -> None:
        (self._on_progress or self._draw)(done, total, numbers)

    def _draw(self, done: int, total: int, numbers: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


class Lines(Silent):
    """For a log that nobody watches: a line of progress after every tenth of the work.

    It says how many ranks there are, since one cell may train on two and then on one.
    """

    def __init__(self, on_progress: OnProgress | None = None, ranks: int = 0) -> None:
        super().__init__(on_progress)
        self._tenth = 0
        self._who = f"{counted(ranks, 'rank')}: " if ranks else ""

    def line(self, rank: int, text: str) -> None:
        print(f"[rank {rank}] {text}", flush=True)

    def _draw(self, done: int, total: int, numbers: dict[str, Any]) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth > self._tenth:
            self._tenth = tenth
            print(self._who + progress_words(done, total, numbers), flush=True)


class Terminal(Lines):
    """For a terminal: one line of progress that is overwritten, with speed and time left."""

    _shown = False
    _first: tuple[int, float] | None = None  # how much was done at the first report, and when

    def line(self, rank: int, text: str) -> None:
        self._clear()
        super().line(rank, text)

    def _draw(self, done: int, total: int, numbers: dict[str, Any]) -> None:
        filled = 20 * done // max(total, 1)
        bar = "█" * filled + "·" * (20 - filled)
        words = self._who + progress_words(done, total, numbers) + self._pace(done, total)
        sys.stderr.write(f"\r\x1b[K{bar} {words}")
        sys.stderr.flush()
        self._shown = True

    def _pace(self, done: int, total: int) -> str:
        """Return the speed and the time left in words; nothing before the second report.

        The first steps are left out: they compile and allocate what is needed once.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = (done, now)
        since, begun = self._first
        if done <= since or now <= begun:
            return ""
        speed = (done - since) / (now - begun)
        minutes, seconds = divmod(round((total - done) / speed), 60)
        hours, minutes = divmod(minutes, 60)
        left = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
        return f", {speed:.3g}/s, {left} left"

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\n")
            self._shown = False


class Updated:
    """A notebook display that is updated in place, as plain text and as HTML."""

    _handle: Any = None

    def display(self, text: str, markup: str) -> None:
        from IPython.display import display

        bundle = {"text/plain": text, "text/html": markup}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class Notebook(Lines, Updated):
    """For a notebook: a progress bar."""

    _last = 0.0

    def _draw(self, done: int, total: int, numbers: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last < 0.1 and done < total:
            return
        self._last = now
        words = self._who + progress_words(done, total, numbers)
        bar = f'<progress value="{done}" max="{total}" aria-label="progress"></progress>'
        self.display(words, f"{bar} {html.escape(words)}")


def progress_words(done: int, total: int, numbers: dict[str, Any]) -> str:
    """Say "30 of 100, loss 2.31"."""
    parts = [f"{done} of {total}"]
    for name, value in numbers.items():
        parts.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(parts)


def view_for(show: bool, on_progress: OnProgress | None, ranks: int) -> View:
    """Choose how to show the output and progress of `ranks` ranks here."""
    if not show:
        return Silent(on_progress)
    if in_notebook():
        return Notebook(on_progress, ranks)
    kind = Terminal if sys.stderr.isatty() else Lines
    return kind(on_progress, ranks)
