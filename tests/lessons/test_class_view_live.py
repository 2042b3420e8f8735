"""The class view with a real server: thirty students, a kill, and the page in a browser."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import axe
import pytest

from dtlib.errors import BadInput
from dtlib.learn import classroom
from dtlib.learn.classroom import Member
from dtlib.lessons.class_view.store import Store
from tests.lab import CHROMIUM, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Served:
    """`dtlib class serve` in a process of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        words = ["class", "serve", "--address=127.0.0.1", f"--port={self.port}", "--students=30"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dtlib", *words, f"--folder={self.folder}"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said = "".join(iter(self.process.stdout.readline, "Ctrl-C ends it.\n"))
        assert self.process.poll() is None
        self.code = self.said.partition("  code     ")[2].split()[0]
        self.key = self.said.partition("/#")[2].split()[0]

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def shown(self) -> dict[str, Any]:
        head = {"authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(f"{self.url}/api/class", headers=head)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "class")
    yield served
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(30) == 0  # Ctrl-C is how one ends it


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


EXERCISES = ("07/global_mean", "07/pass_right", "07/ring_time")
ATTEMPTS = 8  # at each exercise


def verdict(student: int, place: int, attempt: int) -> tuple[str, str]:
    """A third pass at their last attempt, a third at their first, and a third never do."""
    last = attempt == ATTEMPTS
    kind = (student + place) % 3
    passes = (kind == 0 and last) or (kind == 1 and attempt == 1)
    return ("passed", "") if passes else ("refused", "value" if last else "none")


def test_thirty_students_and_a_kill_lose_no_verdict_and_count_none_twice(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classroom, "LONGEST_WAIT", 1.0)
    members = [Member(tmp_path / f"student{k}" / ".dtlib") for k in range(30)]
    for k, member in enumerate(members):
        member.folder.parent.mkdir()
        member.join(served.url, served.code, f"student {k}")
    with pytest.raises(BadInput, match="30 students have joined, and at most 30 may"):
        Member(tmp_path).join(served.url, served.code)

    killed = threading.Event()

    def work(k: int) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            if attempt == ATTEMPTS:
                killed.wait(100)  # so that the kill comes in the middle on any machine
            for place, exercise in enumerate(EXERCISES):
                members[k].tell(exercise, attempt, *verdict(k, place, attempt))
                time.sleep(0.02)

    def arrived() -> int:
        with contextlib.closing(Store(served.folder)) as store:
            return sum(one.attempts for one in store.standings())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(30)]
    for thread in threads:
        thread.start()
    total = 30 * ATTEMPTS * len(EXERCISES)
    until(lambda: arrived() > total // 10)
    served.kill()
    killed.set()
    for thread in threads:
        thread.join()  # no check waits for a server
    assert all(member.waiting() for member in members) and arrived() < total
    secrets = served.code, served.key
    served.start()
    assert (served.code, served.key) == secrets
    until(lambda: not any(member.waiting() for member in members))

    with sqlite3.connect(served.folder / "class.sqlite") as db:
        rows = db.execute("SELECT student, exercise, attempt, verdict, key FROM events").fetchall()
    numbers = {k: member.card()["student"] for k, member in enumerate(members)}
    assert Counter(rows) == Counter(
        (numbers[k], exercise, attempt, *verdict(k, place, attempt))
        for k in numbers
        for place, exercise in enumerate(EXERCISES)
        for attempt in range(1, ATTEMPTS + 1)
    )
    shown = served.shown()
    assert shown["students"] == 30
    for one in shown["lessons"][0]["exercises"]:
        counts = (one["passed"], one["trying"], one["stuck"])
        assert counts == ((20, 0, 10) if f"07/{one['name']}" in EXERCISES else (0, 0, 0))
        assert [m["key"] for m in one["mistakes"]] == ["value"] * bool(one["stuck"])


HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def page(served: Served) -> Iterator[Any]:
    """The instructor's page, opened from the address that was printed."""
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    wrong: list[str] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        page = chromium.new_page(viewport={"width": 1280, "height": 720}, color_scheme="light")
        page.set_default_timeout(60_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{served.url}/#{served.key}")
        yield page
        chromium.close()
    assert wrong == []
    assert {url for url in asked if not url.startswith(f"{served.url}/")} == set()


@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed")
def test_the_page_shows_a_stuck_student_and_goes_on_after_a_kill(
    served: Served, page: Any, tmp_path: Path
) -> None:
    page.get_by_text("No verdict has arrived yet.").wait_for()
    assert "#" not in page.url  # the key is not on the projector
    assert page.locator("#line").inner_text() == f'learn.join("{served.url}", "{served.code}")'
    (tmp_path / "ann").mkdir()
    ann = Member(tmp_path / "ann" / ".dtlib")
    ann.join(served.url, served.code, "calm otter")
    with sqlite3.connect(served.folder / "class.sqlite") as db:  # as if it had not been refused
        db.execute("UPDATE students SET name = ?", (HOSTILE,))
    for attempt in (1, 2):
        ann.tell("07/global_mean", attempt, "refused", "mean_of_means")
    row = page.locator("tr", has_text="global_mean")
    row.locator("td.trying").get_by_text("1").wait_for()
    ann.tell("07/global_mean", 3, "refused", "mean_of_means")
    row.get_by_text("1 × You got …, the average of").wait_for()
    assert row.locator("td.number").all_inner_texts() == ["0", "0", "1"]
    assert HOSTILE not in page.locator("main").inner_text()  # who it is shows on request
    page.get_by_label("show who is stuck").check()
    row.get_by_text(HOSTILE).wait_for()
    assert page.locator("img").count() == 0
    core = axe.script(tmp_path)
    for name in ("Dark", "Light"):
        assert axe.serious(page, core) == []
        page.get_by_role("button", name=name).click()
        assert page.locator("html").get_attribute("data-theme") == name.lower()
    served.kill()
    page.get_by_text("The server does not answer").wait_for()
    ann.tell("07/global_mean", 4, "passed", "")
    served.start()
    row.locator("td.passed").get_by_text("1").wait_for()
    page.get_by_text("1 student has joined.").wait_for()
    assert row.locator("td.number").all_inner_texts() == ["1", "0", "0"]
    page.reload()  # the key is kept in this tab alone
    row.wait_for()
    asks_for_its_key(served, page, core)


def asks_for_its_key(served: Served, page: Any, core: Path) -> None:
    page.evaluate("sessionStorage.clear()")
    page.goto(f"{served.url}/")
    page.get_by_text("The page is not open yet.").wait_for()
    assert axe.serious(page, core) == []
    page.get_by_label("Instructor's key").fill("a guess")
    page.keyboard.press("Enter")
    page.get_by_text("This is not the instructor's key").wait_for()
    page.evaluate("location.hash = '#%E0'")  # decodes to nothing
    page.evaluate("key => { location.hash = key }", served.key)  # pasted into this tab
    page.get_by_text("global_mean").wait_for()
    assert "#" not in page.url
    page.evaluate("sessionStorage.clear()")
    page.goto("about:blank")
    page.goto(f"{served.url}/#%E0")
    page.get_by_text("The page is not open yet.").wait_for()
    page.get_by_label("Instructor's key").fill(served.key)
    page.get_by_role("button", name="Open").click()
    page.get_by_text("global_mean").wait_for()
