"""Keep, while a rank runs, what `dtlib clinic` reads: its flight record and its stack.

A thread writes both every few seconds, so that they are there when the program hangs or is killed.
The stack's first line says who wrote it, when, and how the program ended, if it has.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import runpy
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dtlib.config.files import write_atomically
from dtlib.measure.clinic.evidence import CRASH, UNRECORDED
from dtlib.ranks.environment import EnvWorld
from dtlib.ranks.outcome import failed_in_collective, text_of
from dtlib.ranks.where import Where, main_thread_seconds, where_now, where_raised

FLIGHT, STACK = "flight_rank_", "stack_rank_"
BUFFER = "TORCH_FR_BUFFER_SIZE"
# torch.distributed's functions, and which argument is the other rank
_MESSAGES = {"send": "dst", "recv": "src"}
_ROOTED = {"broadcast": "src", "scatter": "src", "gather": "dst", "reduce": "dst"}


def run(script: str, words: list[str], world: EnvWorld, into: Path, every: float) -> int:
    """Run a script as `python script` would, and keep its records in the folder `into`.

    Returns its exit code: 1 after an error, whose traceback is printed. `every` is in seconds.
    """
    os.environ.setdefault(BUFFER, "2000")
    _clear(into, world)
    sys.argv = [script, *words]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        with _crash_noted(into / f"{CRASH}{world.rank}.txt"), _recording(into, world, every):
            runpy.run_path(script, run_name="__main__")
    except Exception:  # whatever the user's program raises: the records are written by now
        sys.excepthook(*sys.exc_info())  # torch's, which names the rank
        return 1
    return 0


def _clear(into: Path, world: EnvWorld) -> None:
    """Remove this rank's files of an earlier run; rank 0 also those of ranks that are no more."""
    for path in into.glob("*_rank_*"):
        name, _, number = path.stem.rpartition("_")
        if f"{name}_" not in (FLIGHT, STACK, CRASH) or not number.isdecimal():
            continue
        no_more = world.rank == 0 and int(number) >= world.world_size
        if no_more or int(number) == world.rank:
            path.unlink(missing_ok=True)


@contextmanager
def _crash_noted(path: Path) -> Iterator[None]:
    """Let Python write into a file where it is when a signal kills it, as gloo's aborts do."""
    if faulthandler.is_enabled():  # by PYTHONFAULTHANDLER: it goes into the log
        yield
        return
    try:
        with path.open("w") as file:
            faulthandler.enable(file)
            try:
                yield
            finally:
                faulthandler.disable()
    finally:
        path.unlink(missing_ok=True)


@dataclasses.dataclass
class _Watch:
    """Looks at the main thread now and then, and remembers what the look before has seen."""

    into: Path
    world: EnvWorld
    before: tuple[Where, float] | None = None
    since: float = 0.0
    looked: float = 0.0
    done: float = 0.0

    def look(self) -> None:
        """Write what there is at this moment."""
        # where_now loads torch, which must not happen while the main thread loads it
        where, used = where_now() if _initialized() else Where(), main_thread_seconds()
        now, busy, work = time.time(), None, used + children_seconds()
        if self.before is not None:  # a child that has ended takes its time along
            busy = max(0.0, work - self.done) / max(now - self.looked, 1e-3)
        if (where, used) != self.before:  # a thread that waits uses no CPU time
            self.before, self.since = (where, used), now
        self.looked, self.done = now, work
        keep(self.into, self.world, where, since=self.since, busy=busy)


@contextmanager
def _recording(into: Path, world: EnvWorld, every: float) -> Iterator[None]:
    over, watch = threading.Event(), _Watch(into, world)

    def run_on() -> None:
        while not over.wait(every):
            try:
                watch.look()
            except Exception as error:  # the program runs on while we look: the next look may do
                print(f"[rank{world.rank}]: dtlib clinic could not look: {error}", file=sys.stderr)

    thread = threading.Thread(target=run_on, name="dtlib clinic", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        over.set()
        thread.join()
        left = isinstance(error, SystemExit) and not error.code
        waited = isinstance(error, Exception) and failed_in_collective(error)
        where = where_raised(error.__traceback__, waited)
        ended = "returned" if left else f"{type(error).__name__}: {text_of(error)}".splitlines()[0]
        keep(into, world, where, ended)
        raise
    over.set()
    thread.join()
    keep(into, world, Where(), "returned")


def children_seconds() -> float:
    """Return the CPU time of the processes that this one has started, and theirs."""
    import psutil

    seconds = 0.0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it may have ended by now
            seconds += sum(child.cpu_times()[:2])
    return seconds


def keep(
    into: Path, world: EnvWorld, where: Where, ended: str = "", since: float | None = None,
    busy: float | None = None,
) -> None:  # fmt: skip
    """Write the flight record and the stack of this moment.

    `ended` says how the program ended: "returned", or its error; `where` is then where that was.
    `since` is when the main thread was first seen in this wait, in seconds since 1970, and `busy`
    the CPU time that it and this process's children used since the look before, in cores.
    """
    now, record, flight = time.time(), _flight_record(), into / f"{FLIGHT}{world.rank}"
    # without a process group, as after destroy_process_group, the dump stays what it was
    dumped = now if record else flight.stat().st_mtime if flight.exists() else None
    head = {
        "rank": world.rank, "world_size": world.world_size, "time": now, "flight": dumped,
        "since": since, "busy": busy, "pid": os.getpid(), "ended": ended, "groups": _groups(),
        "made": _groups_made(),
        "where": {**dataclasses.asdict(where), **({} if ended else _arguments())},
    }  # fmt: skip
    write_atomically(into / f"{STACK}{world.rank}.txt", f"# {json.dumps(head)}\n{_stacks()}")
    if record:
        write_atomically(flight, record)


def _stacks() -> str:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


def _flight_record() -> bytes:
    """Return torch's dump, or nothing before the program has a process group."""
    if not _initialized():
        return b""
    try:
        import torch.distributed as dist
        from torch._C import _distributed_c10d as c10d

        nccl = "nccl" in dist.get_backend()  # also "cpu:gloo,cuda:nccl"
        return (c10d._dump_nccl_trace if nccl else c10d._dump_fr_trace)()  # type: ignore[attr-defined]
    except Exception:  # private functions: without them the stack must suffice
        return b""


def _initialized() -> bool:
    """Return whether torch is wholly loaded and the program has a process group."""
    dist = sys.modules.get("torch.distributed")
    return bool(getattr(dist, "is_initialized", bool)())


def _groups() -> dict[str, list[int]]:
    """Return the members of every process group, by the name that the flight recorder uses."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        groups = list(c10d._world.pg_map) if _initialized() else []
        return {group.group_name: c10d.get_process_group_ranks(group) for group in groups}
    except Exception:  # private, and may change while we look
        return {}


def _groups_made() -> int | None:
    """Return how many groups this rank has made or begun to, also those without it."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        return c10d._world.group_count - 1 if _initialized() else None  # without the default group
    except Exception:  # private: where torch has no such count, the sentence goes without it
        return None


def _arguments() -> dict[str, int | list[int] | None]:
    """Return what the main thread's call says of other ranks, and the flight recorder does not.

    `peer` is the rank that its message goes to or comes from, `tag` that message's tag, `root` the
    rank that a collective starts from or ends at, `members` those of the call's group.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        code, told = frame.f_code, frame.f_locals
        if code.co_filename.endswith("distributed_c10d.py"):
            if code.co_name in _MESSAGES:
                tag = told.get("tag")
                peer = _named_rank(told, _MESSAGES[code.co_name])
                return {"peer": peer, "tag": tag if isinstance(tag, int) else None}
            if code.co_name in _ROOTED:
                return {"root": _named_rank(told, _ROOTED[code.co_name])}
            if code.co_name in UNRECORDED:
                return {"members": _members(told)}
        frame = frame.f_back
    return {}


def _members(told: dict[str, Any]) -> list[int]:
    """Return the ranks of the group that a call was given, which are all if it was given none."""
    return _groups().get(getattr(told.get("group"), "group_name", "0"), [])


def _named_rank(told: dict[str, Any], name: str) -> int | None:
    """Return a call's `src` or `dst`, or the global rank of its `group_src` or `group_dst`."""
    rank, within, members = told.get(name), told.get(f"group_{name}"), _members(told)
    if isinstance(rank, int):
        return rank
    return members[within] if isinstance(within, int) and within < len(members) else None
