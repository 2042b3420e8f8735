"""The lock of a folder: seen, waited for, taken over; on file systems that have none, too."""

import errno
import fcntl
import os
import threading
from pathlib import Path

import filelock
import pytest

from dtlib.data.fetch import locking
from dtlib.data.fetch.locking import is_held, locked
from dtlib.errors import Unavailable


def test_the_lock_is_seen_held_and_leaves_nothing(tmp_path):
    lock = tmp_path / "lock"
    assert not is_held(lock) and not lock.exists()
    with locked(lock, tmp_path / "stage"):
        assert is_held(lock)
    assert not is_held(lock) and not lock.exists()
    lock.write_text("")  # what a process left that was killed
    assert not is_held(lock)
    assert list(tmp_path.iterdir()) == []


def test_a_holder_without_a_sign_of_life_is_given_up(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(locking, "PATIENCE", 0.0)
    lock, stage = tmp_path / "lock", tmp_path / "stage"
    with (
        locked(lock, stage),
        pytest.raises(Unavailable, match=r"holds .*/lock and has written nothing .*DTLIB_DATA"),
        locked(lock, stage),
    ):
        pytest.fail("two are in")
    assert "waiting for the process that holds" in capsys.readouterr().err


def test_a_holder_that_writes_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "PATIENCE", 0.0)
    monkeypatch.setattr(locking, "POLL", 0.01)
    holder = filelock.FileLock(str(tmp_path / "lock"), thread_local=False)
    holder.acquire()
    seen: list[int] = []

    def signs(stage: Path) -> list[tuple[str, int, int]]:
        seen.append(len(seen))
        if len(seen) == 6:
            holder.release()
        return [("part", len(seen), 0)]

    monkeypatch.setattr(locking, "_signs", signs)
    with locked(tmp_path / "lock", tmp_path / "stage"):
        assert len(seen) == 6


def test_signs_of_life_are_sizes_and_times(tmp_path):
    assert locking._signs(tmp_path / "none") == []
    (tmp_path / "ready").mkdir()
    before = locking._signs(tmp_path)
    (tmp_path / "ready" / "file").write_text("a")
    after = locking._signs(tmp_path)
    assert before != after
    with (tmp_path / "ready" / "file").open("a") as file:
        file.write("b")
    assert locking._signs(tmp_path) != after


def without_flock(number: int):
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return flock


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_gets_a_soft_one(number, tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", without_flock(number))
    monkeypatch.setattr(locking, "PATIENCE", 0.0)
    lock, stage = tmp_path / "lock", tmp_path / "stage"
    with (
        locked(lock, stage),
        pytest.raises(Unavailable, match="has written nothing"),
        locked(lock, stage),
    ):
        pytest.fail("two are in")
    with locked(lock, stage):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_older_filelock_says_it_otherwise(tmp_path, monkeypatch):
    class Old(filelock.FileLock):  # type: ignore[misc, valid-type]
        def acquire(self, *_: object, **__: object) -> None:  # type: ignore[override]
            raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr(filelock, "FileLock", Old)
    with locked(tmp_path / "lock", tmp_path / "stage"):
        assert (tmp_path / "lock.soft").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_hangs_in_the_system_is_given_up(tmp_path, monkeypatch):
    ended = threading.Event()

    class Hung(filelock.FileLock):  # type: ignore[misc, valid-type]
        def acquire(self, *_: object, **__: object) -> None:  # type: ignore[override]
            ended.wait(60)

    monkeypatch.setattr(filelock, "FileLock", Hung)
    monkeypatch.setattr(locking, "HANG", 0.0)
    monkeypatch.setattr(locking, "POLL", 0.05)
    with (
        pytest.raises(Unavailable, match=r"hangs on file locks, so set DTLIB_DATA .* own disk"),
        locked(tmp_path / "lock", tmp_path / "stage"),
    ):
        pytest.fail("nobody has a lock")
    ended.set()


def test_other_errors_of_the_lock_stay_what_they_are(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError), locked(tmp_path / "file" / "lock", tmp_path):
        pytest.fail("there is no such folder")
