"""In a rank: the thread that listens to the parent while the user's function runs."""

from __future__ import annotations

import os
import queue
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from dtlib.ranks import dist
from dtlib.ranks.where import where_now


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


class Watch:
    """What the parent tells this rank: the store's port (`go`), that it may end (`released`)."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.go: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.released = threading.Event()
        threading.Thread(target=self._listen, daemon=True, name="dtlib-watch").start()

    def _listen(self) -> None:
        parent = os.getppid()
        try:
            while not self.released.is_set():
                if self.line.connection.poll(1.0):
                    self._obey(*self.line.receive())
                elif os.getppid() != parent:
                    end_group()
        except (EOFError, OSError):
            end_group()

    def _obey(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "where":
            self.line.send("where", where=where_now())
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
