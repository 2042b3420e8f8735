"""What signals do to a run of lessons."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Make SIGTERM end a run as Ctrl-C does: with every kernel and rank."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with _handled(signal.SIGTERM, interrupt):
        yield


@contextlib.contextmanager
def on_usr1(tell: Callable[[], object]) -> Iterator[None]:
    """Call `tell` on SIGUSR1, which Slurm sends when a job's time is nearly up."""
    with _handled(signal.SIGUSR1, lambda *_: tell()):
        yield


@contextlib.contextmanager
def _handled(name: signal.Signals, handler: Callable[..., object]) -> Iterator[None]:
    """Handle a signal; signal handlers belong to the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(name, handler)
    try:
        yield
    finally:
        signal.signal(name, before)
