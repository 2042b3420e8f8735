"""The progress of a download: a bar on a terminal, otherwise a line after every tenth."""

from __future__ import annotations

import sys
import time

WIDTH = 24
LARGE = 20_000_000  # bytes from which a log gets lines of progress


def amount(size: float) -> str:
    """Format a number of bytes in decimal units: "170 MB"."""
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


class Progress:
    """Shows how much of a file's `total` bytes has arrived.

    With `show` False it prints nothing (on a rank that is not the first).
    """

    def __init__(self, name: str, total: int, show: bool = True) -> None:
        self.name, self.total, self.show = name, max(total, 1), show
        self._bar = show and sys.stderr.isatty()
        self._tenth, self._last = 0, 0.0

    def update(self, done: int) -> None:
        """Show that `done` bytes have arrived."""
        part = min(done / self.total, 1.0)
        if self._bar:
            now = time.monotonic()
            if now - self._last > 0.1 or part == 1.0:
                self._last = now
                filled = int(WIDTH * part)
                bar = "█" * filled + "·" * (WIDTH - filled)
                self._write(f"\r\x1b[K{bar} {amount(done)} of {amount(self.total)}, {self.name}")
        elif self.show and self.total >= LARGE and int(10 * part) > self._tenth:
            self._tenth = int(10 * part)
            self._write(f"{self.name}: {10 * self._tenth} % of {amount(self.total)}\n")

    def note(self, text: str) -> None:
        """Print something else on a line of its own."""
        if self.show:
            self._write(f"\r\x1b[K{text}\n" if self._bar else f"{text}\n")

    def close(self) -> None:
        """Remove the bar."""
        if self._bar:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
