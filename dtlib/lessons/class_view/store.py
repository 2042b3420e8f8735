"""What a class view keeps, in SQLite: its secrets, who has joined, and every verdict once."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from dtlib.config.files import writable_folder
from dtlib.errors import BadInput
from dtlib.learn.classroom import bare
from dtlib.lessons.class_view.names import checked, hashed, new_code, new_name
from dtlib.lessons.class_view.refusals import Refused

FILE = "class.sqlite"
VERSION = 1  # of the tables
_TABLES = """
CREATE TABLE class (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE students (
    id INTEGER PRIMARY KEY, name TEXT, folded TEXT UNIQUE, token TEXT UNIQUE
);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, student INTEGER NOT NULL REFERENCES students (id), id TEXT NOT NULL,
    exercise TEXT NOT NULL, attempt INTEGER NOT NULL, verdict TEXT NOT NULL, key TEXT NOT NULL,
    arrived REAL NOT NULL, UNIQUE (student, id)
);
CREATE INDEX by_exercise ON events (student, exercise);
"""


class Event(NamedTuple):
    """One verdict, as a student's machine sends it."""

    id: str
    exercise: str
    attempt: int
    verdict: str
    key: str


class Standing(NamedTuple):
    """Where one student stands with one exercise; `name` is None once the student has left."""

    student: int
    name: str | None
    exercise: str
    passes: int
    refusals: int
    attempts: int
    key: str  # of the latest verdict
    arrived: float  # when the latest verdict reached the server, in seconds since 1970


class Store:
    """The file of one class.

    Parameters
    ----------
    folder
        Where `class.sqlite` lies.
    new
        Make the class if there is none yet, and let no other server open it.

    Raises
    ------
    BadInput
        When there is no class, its file cannot be read, or another server has it open.
    """

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        self.file = folder / FILE
        self._mutex = threading.Lock()
        self._held: IO[str] | None = None
        if new:
            there = folder.exists()
            writable_folder(folder, "--folder")
            if not there:
                folder.chmod(0o700)
            self._hold(folder)
            # SQLite gives its other files the mode of this one.
            os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))
        elif not self.file.exists():
            raise BadInput(
                f"there is no class in {folder}: give the --folder that `dtlib class serve` used."
            )
        try:
            self._open(new)
        except sqlite3.Error as error:
            self._let_go()
            raise BadInput(
                f"{self.file} cannot be used as the file of a class ({error}); choose another "
                "--folder."
            ) from None

    def _hold(self, folder: Path) -> None:
        self._held = (folder / "serving.lock").open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._let_go()
            raise BadInput(
                f"another `dtlib class serve` is using {folder}: end it first, or choose another "
                "--folder."
            ) from None

    def _open(self, new: bool) -> None:
        self._db = sqlite3.connect(self.file, check_same_thread=False, isolation_level=None)
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION) or (version == 0 and not new):
            raise sqlite3.DatabaseError(f"its tables are of version {version}, not {VERSION}")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")  # what was answered survives a power cut
        if version == 0:
            made = {"code": new_code(), "key": secrets.token_urlsafe(18)}
            values = ", ".join(f"('{name}', '{value}')" for name, value in made.items())
            self._db.executescript(
                f"BEGIN; {_TABLES} INSERT INTO class VALUES {values};"
                f"PRAGMA user_version = {VERSION}; COMMIT;"
            )
        kept = dict(self._db.execute("SELECT key, value FROM class"))
        self.code, self.key = kept["code"], kept["key"]

    @contextlib.contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # on a full disk, SQLite may have rolled back already
                    self._db.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._mutex:
            return self._db.execute(query, values).fetchall()

    def is_code(self, code: str) -> bool:
        """Whether this is the join code, compared in a time that tells nothing about it."""
        return hmac.compare_digest(bare(code).encode(errors="replace"), bare(self.code).encode())

    def is_key(self, key: str) -> bool:
        """Whether this is the instructor's key, compared in the same way."""
        return hmac.compare_digest(key.encode(errors="replace"), self.key.encode())

    def join(self, name: str | None, most: int) -> tuple[int, str, str]:
        """Add a student and return number, pseudonym and token.

        The token itself is not kept. Raises `Refused` for a name that is no pseudonym or is taken,
        and when `most` students have joined.
        """
        wanted = checked(name) if name is not None else None
        token = secrets.token_urlsafe(32)
        with self._change() as db:
            taken = {folded for (folded,) in db.execute("SELECT folded FROM students") if folded}
            if len(taken) >= most:
                raise Refused(
                    409,
                    f"This class is full: {len(taken)} students have joined, and at most {most} "
                    "may; ask the instructor to start it with more --students.",
                )
            if wanted and wanted.casefold() in taken:
                raise Refused(409, f"Somebody here is already called {wanted!r}: choose another.")
            name = wanted or new_name(taken)
            added = db.execute(
                "INSERT INTO students (name, folded, token) VALUES (?, ?, ?)",
                (name, name.casefold(), hashed(token)),
            )
            return int(added.lastrowid or 0), name, token

    def owns(self, token: str, student: int) -> bool:
        """Whether a token is that of this student.

        Raises `Refused` when it is nobody's.
        """
        found = self._rows("SELECT id FROM students WHERE token = ?", hashed(token))
        if not found:
            raise Refused(401, "This token is of nobody in this class: join it with its code.")
        return bool(found[0][0] == student)

    def add(self, student: int, events: Sequence[Event]) -> int:
        """Keep events and return how many of them were new; one that is there counts once."""
        query = (
            "INSERT OR IGNORE INTO events (student, id, exercise, attempt, verdict, key, arrived)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        with self._change() as db:
            before = db.total_changes
            db.executemany(query, [(student, *event, time.time()) for event in events])
            return db.total_changes - before

    def leave(self, student: int) -> None:
        """Forget a student's pseudonym and token; the verdicts stay, without a name."""
        with self._change() as db:
            db.execute(
                "UPDATE students SET name = NULL, folded = NULL, token = NULL WHERE id = ?",
                (student,),
            )

    def students(self) -> list[str]:
        """The pseudonyms of those who have joined and not left."""
        rows = self._rows("SELECT name FROM students WHERE name IS NOT NULL ORDER BY id")
        return [name for (name,) in rows]

    def standings(self) -> list[Standing]:
        """One row for each student and exercise, in the order in which students joined."""
        # With a single max(), SQLite takes bare columns (`key`) from the row that has the maximum.
        rows = self._rows(
            "SELECT student, name, exercise, sum(verdict = 'passed'), sum(verdict = 'refused'),"
            " count(*), key, arrived, max(seq)"
            " FROM events JOIN students ON students.id = events.student"
            " GROUP BY student, exercise ORDER BY student, exercise"
        )
        return [Standing(*row[:-1]) for row in rows]

    def close(self) -> None:
        """Close the file, and let another server open it."""
        with self._mutex:
            self._db.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
