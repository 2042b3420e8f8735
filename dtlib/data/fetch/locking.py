"""The lock of a folder: one process fetches, and the others wait for it, up to a limit."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from dtlib.errors import Unavailable
from dtlib.ranks.waiting import answers_within

POLL = 0.25  # seconds between two tries to take a lock
HANG = 20.0  # seconds after which a system call on the lock counts as hung
PATIENCE = 120.0  # seconds without a sign of life from the process that holds the lock
# What a file system without locks answers: Lustre without flock, NFS without its lock service.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextlib.contextmanager
def locked(
    path: Path, stage: Path, *, show: bool = True, setting: str = "DTLIB_DATA"
) -> Iterator[None]:
    """Let only one of the processes that use the same `path` into the block.

    The system frees the lock when its holder dies, so the next process takes over; the file `path`
    is removed afterwards. As long as something changes in the folder `stage`, where the holder
    writes, the holder is alive. `show`: print that we wait. `setting` names the variable that
    chooses another folder. Raises `Unavailable` if the lock cannot be taken because its holder
    shows no sign of life or the file system hangs.
    """
    lock = _wait(path, stage, show, setting)
    try:
        yield
    finally:
        # Before the release: a process that comes later creates its own file.
        path.unlink(missing_ok=True)
        lock.release()


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock now."""
    if not path.exists():
        return False
    lock, taken = _take(_lock(filelock.FileLock, path), path, 0.0, "DTLIB_DATA")
    if taken:  # left behind by a process that was killed
        path.unlink(missing_ok=True)
        lock.release()
    return not taken


def _wait(path: Path, stage: Path, show: bool, setting: str) -> filelock.BaseFileLock:
    lock = _lock(filelock.FileLock, path)
    seen, since = _signs(stage), time.monotonic()
    while True:
        lock, taken = _take(lock, path, POLL, setting)
        if taken:
            return lock
        if show:
            print(f"waiting for the process that holds {path}", file=sys.stderr, flush=True)
            show = False
        now = _signs(stage)
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            raise Unavailable(
                f"another process holds {path} and has written nothing for {PATIENCE:g} s: stop "
                f"it, or delete that file if nobody is writing, or set {setting} to a folder on "
                "this machine's own disk."
            )


def _take(
    lock: filelock.BaseFileLock, path: Path, seconds: float, setting: str
) -> tuple[filelock.BaseFileLock, bool]:
    """Try to take the lock; if the file system has no locks, use a file's existence as one."""

    def acquire() -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions change to a soft lock with a warning
            try:
                lock.acquire(timeout=seconds)
            except filelock.Timeout:
                return False
            return True

    (answer,) = answers_within(seconds + HANG, [acquire])
    if isinstance(answer, bool):
        return lock, answer
    if isinstance(answer, TimeoutError):
        raise Unavailable(
            f"the lock {path} failed with {answer}: the file system hangs on file locks, so set "
            f"{setting} to a folder on this machine's own disk."
        )
    # Older versions of filelock turn ENOSYS into NotImplementedError.
    if getattr(answer, "errno", None) not in NO_LOCKS and type(answer) is not NotImplementedError:
        raise answer
    if isinstance(lock, filelock.SoftFileLock):
        raise Unavailable(
            f"no lock can be created in {path.parent}: set {setting} to a folder on this "
            "machine's own disk."
        )
    # Under another name: the first attempt has created, or emptied, the file `path`.
    soft = path.with_name(f"{path.name}.soft")
    return _take(_lock(filelock.SoftFileLock, soft), path, seconds, setting)


def _lock(kind: Callable[..., filelock.BaseFileLock], path: Path) -> filelock.BaseFileLock:
    # Not bound to a thread: it is taken in one and freed in another.
    return kind(str(path), thread_local=False)


def _signs(stage: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of the files in the folder."""
    found = []
    for folder, _, names in os.walk(stage):
        for name in names:
            with contextlib.suppress(OSError):
                stat = Path(folder, name).stat()
                found.append((name, stat.st_size, stat.st_mtime_ns))
    return sorted(found)
