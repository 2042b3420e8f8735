"""In a rank: the thread that listens to the parent while the user's function runs."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any

from dtlib.ranks import dist
from dtlib.ranks.outcome import failed_in_collective
from dtlib.ranks.where import (
    Where,
    handled_error,
    main_thread_seconds,
    pending_collective,
    where_now,
)

STILL = 0.1  # seconds in which a thread does nothing, so that it waits and is not about to raise
RAISING = 0.3  # seconds that a collective which failed below Python takes to raise its error
GIVING_UP = 2.0  # seconds that the frames around it may take to let that error out


class Line:
    """The rank's end of its pipe to the parent; two threads send on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()

    def send(self, kind: str, **content: Any) -> None:
        with self._lock:
            self.connection.send((kind, content))

    def receive(self) -> tuple[str, dict[str, Any]]:
        return self.connection.recv()


class Stage(Enum):
    """How far the rank's main thread is."""

    BEFORE = "before the function"
    WITHIN = "within the function"
    LEFT = "out of the function, its report on the way"


class Watch:
    """What the parent tells this rank: the store's port (`go`), that it may end (`released`).

    `timeout` is how many seconds a collective waits.
    """

    def __init__(self, line: Line, timeout: float) -> None:
        self.line = line
        self.stage = Stage.BEFORE
        self.go: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.released = threading.Event()
        self.store: Any = None  # that this rank serves, beyond an error of its own
        self._tick = min(1.0, max(0.05, timeout / 4))  # so that no time-out goes by unnoted
        self._used, self._noted = 0.0, True
        threading.Thread(target=self._listen, daemon=True, name="dtlib-watch").start()

    def _listen(self) -> None:
        parent = os.getppid()
        try:
            while not self.released.is_set():
                if self.line.connection.poll(self._tick):
                    self._obey(*self.line.receive())
                elif os.getppid() != parent:
                    end_group()
                else:
                    self._note_wait()
        except (EOFError, OSError):
            end_group()

    def _note_wait(self) -> None:
        """Look once at each wait of the main thread: when it has failed, nobody can."""
        used = main_thread_seconds()
        if used != self._used:
            self._used, self._noted = used, False
        elif not self._noted and self.stage is Stage.WITHIN:
            pending_collective(waits=True)
            self._noted = True

    def _where(self) -> Where:
        """Say where the rank is; what its own report will say better is not said here.

        gloo's clock and the parent's may end at one moment. A rank that is asked while the error of
        its collective is on the way out seems to be at work, in another collective, or nowhere: it
        looks again until the function is over. It does not look for ever, since a function may
        catch that error, and not for long once the main thread is seen to wait.
        """
        start = moved = time.monotonic()
        used = 0.0
        while True:
            before, used, now = used, main_thread_seconds(), time.monotonic()
            moved = moved if used == before else now
            found, stage, error = where_now(), self.stage, handled_error()
            if stage is not Stage.WITHIN:
                return Where(left=stage is Stage.LEFT)
            failed = error is not None and failed_in_collective(error)
            patience = GIVING_UP if failed or not found.function else 0.0
            if found.hidden and not failed:
                patience = STILL if now - moved > STILL else RAISING
            if (found.call and not found.hidden) or now > start + patience:
                return found
            time.sleep(0.01)

    def _obey(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "where":
            self.line.send("where", where=self._where())
        elif kind == "stop":
            dist.request_stop()
            self.line.send("stopping", heeded=dist.heeds_stop())
        elif kind == "go":
            self.go.put(content["port"])
        elif kind == "bye":
            self.released.set()


def end_group() -> None:
    """End this rank at once, and the processes that it started: the parent is gone."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
