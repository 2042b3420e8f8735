"""The student's side of the class view: `learn.join`, `learn.leave`, and what a check tells.

Nobody who has not joined sends anything. Of whoever has, four things are sent for each attempt: the
exercise, the attempt's number, whether it passed, and the key of the mistake. They wait in a file
until the server has answered, so a check never waits for the network, and each has an id of its
own, so the server counts none twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import uuid
from pathlib import Path
from typing import Any

from dtlib.config.files import write_atomically
from dtlib.errors import BadInput, Unavailable, in_words
from dtlib.learn import history
from dtlib.learn.asking import Answer, ask, base_of
from dtlib.learn.show import say

PASSED, REFUSED = "passed", "refused"
BATCH = 100  # events in a request
FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0  # seconds before the server is asked again
STRANGER = (401, 403)  # what a server answers that does not know this student


def bare(code: str) -> str:
    """Return a join code as it is compared: without spaces and hyphens, in capitals."""
    return "".join(one for one in code.upper() if one.isalnum())


class Member:
    """One student's place in a class, kept in a folder: a token, and what is still to be sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._card, self._queue = folder / "class.json", folder / "class_queue.jsonl"
        self._wake, self._thread = threading.Event(), threading.Lock()
        self._running = False
        self.problem = ""  # why the server takes nothing from this student, in its words

    def card(self) -> dict[str, Any]:
        """Where this student has joined, as whom, with which token; `{}` for nobody."""
        try:
            found = json.loads(self._card.read_bytes())
        except (OSError, ValueError):
            return {}
        whole = isinstance(found, dict) and {"url", "student", "name", "token"} <= found.keys()
        return found if whole else {}

    def waiting(self) -> list[dict[str, Any]]:
        """The events that the server has not acknowledged, in their order."""
        events = []
        with contextlib.suppress(OSError):
            for line in self._queue.read_text("utf-8", "replace").splitlines():
                with contextlib.suppress(ValueError):  # torn, when the machine lost its power
                    events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict) and "id" in event]

    def join(self, url: str, code: str, name: str | None = None) -> dict[str, Any]:
        """Become a student of a class and return the card; joined already, stay who one is.

        Raises
        ------
        BadInput
            When the address is none, or the server refuses: the sentence is the server's.
        Unavailable
            When no class view answers there.
        """
        base, old = base_of(url), self.card()
        # A class keeps its code; the address changes when the instructor's machine gets another.
        same = bool(old) and old.get("code") == bare(code)
        if self._known(base, old, same):
            if name and name != old["name"]:
                raise BadInput(f"you are {old['name']!r} in this class: learn.leave() first.")
            if old["url"] != base:
                old["url"] = base
                with history.locked(self.folder):
                    self._write(old)
            self._start()
            return old
        body = {"code": code} if name is None else {"code": code, "name": name}
        try:
            answer = ask("POST", base, "/api/join", body)
        except OSError as error:
            raise Unavailable(
                f"no class view answers at {base} ({in_words(error)}): compare the address with the"
                " one on the board, and use the same network as the instructor."
            ) from None
        if answer.status != 200 or not {"student", "name", "token"} <= set(answer.content):
            raise BadInput(answer.sentence)
        card = {"url": base, "code": bare(code)}
        card |= {k: answer.content[k] for k in ("student", "name", "token")}
        with history.locked(self.folder):
            if not same:  # what another class was to be told
                self._queue.unlink(missing_ok=True)
            self._write(card)
        self._start()
        return card

    def _known(self, base: str, card: dict[str, Any], same: bool) -> bool:
        """Whether the class at an address is the one of the card, and knows its student.

        At the card's own address, a class that is away still does.
        """
        if not card or not (same or card["url"] == base):
            return False
        status = self._post([], card | {"url": base}).status
        return status == 200 or (card["url"] == base and status not in STRANGER)

    def _write(self, card: dict[str, Any]) -> None:
        """Replace the card by a file that nobody else could ever read: it holds the token."""
        new = self._card.with_suffix(".new")
        new.unlink(missing_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(card, indent=1) + "\n")
            file.flush()
            os.fsync(handle)
        new.replace(self._card)

    def leave(self) -> str | None:
        """Drop token and events, tell the server, and return what it could not be told."""
        card = self.card()
        with history.locked(self.folder):
            self._card.unlink(missing_ok=True)
            self._queue.unlink(missing_ok=True)
        self._wake.set()
        try:
            path = f"/api/students/{card['student']}"
            answer = ask("DELETE", card["url"], path, token=card["token"])
        except OSError as error:
            return f"The server does not answer ({in_words(error)}), so it still has your name."
        return None if answer.status in (200, 401) else answer.sentence

    def tell(self, exercise: str, attempt: int, verdict: str, key: str) -> None:
        """Put a verdict into the queue, if this student has joined; never wait, never raise."""
        if not self._card.exists():
            return
        event = {
            "id": uuid.uuid4().hex, "exercise": exercise, "attempt": attempt, "verdict": verdict,
            "key": key,
        }  # fmt: skip
        # A full disk, or no thread to be had: the check itself goes on.
        with contextlib.suppress(OSError, RuntimeError):
            with history.locked(self.folder), self._queue.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(event)}")  # a torn line before it stays alone
                file.flush()
                os.fsync(file.fileno())
            self._start()

    def _start(self) -> None:
        """Wake the thread that sends, or start it."""
        self._wake.set()
        with self._thread:
            if not self._running:
                threading.Thread(target=self._run, name="class view", daemon=True).start()
                self._running = True

    def resume(self) -> None:
        """Send what another kernel left behind."""
        if self.card() and self.waiting():
            self._start()

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException:  # a bug: the next check starts another thread
            with self._thread:
                self._running = False
            raise

    def _send_all(self) -> None:
        """Send until nothing is left, or until the server says that it knows no such student."""
        pause, go_on = FIRST_WAIT, True
        while True:
            self._wake.clear()
            with self._thread:
                events = self.waiting()[:BATCH] if go_on and self.card() else []
                if not events:
                    self._running = False
                    return
            answer = self._post(events)
            if self._settled(events, answer):
                pause = FIRST_WAIT
            elif answer.status in STRANGER:
                self.problem, go_on = answer.sentence, False
            else:
                self._wake.wait(max(answer.wait, pause))
                pause = min(2 * pause, LONGEST_WAIT)

    def _settled(self, events: list[dict[str, Any]], answer: Answer) -> bool:
        """Take out of the queue what the server has, or will never take; tell if that is any."""
        ids = {event["id"] for event in events}
        if answer.status == 422:
            # another version of the course has no such exercise: the others are sent without it
            ids &= {str(answer.content.get("event"))}
        elif answer.status != 200 or "new" not in answer.content:
            return False
        self.problem = ""
        try:
            with history.locked(self.folder):
                left = [event for event in self.waiting() if event["id"] not in ids]
                if self._queue.exists():
                    write_atomically(self._queue, "".join(f"\n{json.dumps(one)}" for one in left))
        except OSError:  # a full disk: they are sent again, and the server knows their ids
            return False
        return bool(ids)

    def _post(self, events: list[dict[str, Any]], card: dict[str, Any] | None = None) -> Answer:
        card = card or self.card()
        if not card:
            return Answer(0)
        try:
            path = f"/api/students/{card['student']}/events"
            return ask("POST", card["url"], path, {"events": events}, card["token"])
        except OSError:
            return Answer(0)


_members: dict[Path, Member] = {}


def member() -> Member:
    """The place in a class that is kept beside the student's progress."""
    folder = history.folder()
    return _members.setdefault(folder, Member(folder))


def join(url: str, code: str, name: str | None = None) -> None:
    """Join the class view of an instructor, who then sees which exercises you pass.

    For each attempt four things are sent: the exercise, the attempt's number, whether it passed,
    and the key of the mistake. Your code and your machine's name are never sent. If the server
    cannot be reached, they wait in `.dtlib` beside your progress.

    Parameters
    ----------
    url
        The address on the board, `"http://192.168.1.20:8733"`.
    code
        The code on the board; small letters will do.
    name
        A pseudonym; the server chooses one if there is none.

    Raises
    ------
    BadInput
        When the server refuses; the sentence says why.
    Unavailable
        When no class view answers at this address.
    """
    card = member().join(url, code, name)
    say(
        "Joined.",
        f"You are {card['name']!r} in this class. Sent after each check: exercise, number of the"
        " attempt, passed or not, which mistake. Never your code.",
        "learn.leave() ends it.",
    )


def leave() -> None:
    """Leave the class: nothing more is sent, and the server forgets your name."""
    if not member().card():
        say("Nothing to leave.", "You have joined no class.")
        return
    problem = member().leave()
    say("Left.", "Nothing more is sent.", *([problem] if problem else []))


def resume() -> None:
    """Say that this student has joined a class, and send what is still waiting."""
    card = member().card()
    if card:
        print(
            f"You are {card['name']!r} in the class view of {card['url']}; learn.leave() ends it."
        )
        member().resume()
