"""A class view for tests, without a socket: its application, and a student's requests to it."""

import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from dtlib.learn.asking import Answer
from dtlib.lessons.class_view.app import ClassView
from dtlib.lessons.class_view.overview import Exercise, catalogue
from dtlib.lessons.class_view.store import Store


@cache
def known(lessons: str | None) -> dict[str, Exercise]:
    """The exercises of the folder of lessons that DTLIB_LESSONS names: read once for all tests."""
    return catalogue()


class Server:
    """A class in a folder. `up` and `loses_answers` are what a network does to it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.store = Store(folder, new=True)
        self.view = ClassView(self.store, known(os.environ.get("DTLIB_LESSONS")), **settings)
        self.client = TestClient(self.view.application(), raise_server_exceptions=False)
        self._one_at_a_time = threading.Lock()  # a client of tests is not made for threads
        self.up, self.loses_answers = True, False
        self.asked: list[tuple[str, str, Any]] = []

    def ask(self, method: str, base: str, path: str, body: Any = None, token: str = "") -> Answer:
        """What `dtlib.learn.asking.ask` does over a socket."""
        self.asked.append((method, path, body))
        if not self.up:
            raise ConnectionRefusedError("the server is down")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        with self._one_at_a_time:
            answer = self.client.request(method, path, json=body, headers=headers)
        if self.loses_answers:
            raise TimeoutError("no answer")
        return Answer(answer.status_code, answer.json())

    def shown(self) -> dict[str, Any]:
        """What the instructor's page is told."""
        headers = {"authorization": f"Bearer {self.store.key}"}
        with self._one_at_a_time:
            return self.client.get("/api/class", headers=headers).json()

    def counts(self, exercise: str) -> tuple[int, int, int]:
        """Passed, trying and stuck of an exercise `NN/name`."""
        number, _, name = exercise.partition("/")
        for lesson in self.shown()["lessons"]:
            for one in lesson["exercises"]:
                if (lesson["number"], one["name"]) == (number, name):
                    return one["passed"], one["trying"], one["stuck"]
        return 0, 0, 0
