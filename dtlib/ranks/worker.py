"""A rank: a fork of the server, or a spare process of its own. It does one job and ends."""

from __future__ import annotations

import linecache
import multiprocessing.util
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed

from dtlib.errors import DtlibError
from dtlib.ranks import dist, parcel, where
from dtlib.ranks.aliases import alias
from dtlib.ranks.environment import HASH_SEED, EnvWorld
from dtlib.ranks.listener import Line, Stage, Watch
from dtlib.ranks.outcome import failed_in_collective, text_of

# The line to the parent, for `dtlib.ranks.launcher.progress`, and when it last went there.
current: Line | None = None
_last_progress = 0.0


def send_progress(done: int, total: int, numbers: dict[str, Any]) -> None:
    """Send progress to the parent, at most 20 times a second, the last step always."""
    global _last_progress
    now = time.monotonic()
    if current is not None and (now - _last_progress > 0.05 or done >= total):
        _last_progress = now
        current.send("progress", done=done, total=total, numbers=numbers)


def main(fd: int, prepare: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Wait for a job on the pipe `fd`, do it, and wait until the parent lets go. Never returns.

    `prepare` changes the job where the parent could not know what holds here (another node).
    """
    global current
    os.set_inheritable(fd, False)
    _open_output()
    line = current = Line(Connection(fd))
    try:
        line.send("hello", pid=os.getpid())
        _, job = line.receive()
    except (EOFError, OSError):
        os._exit(0)  # a spare that nobody needed
    if prepare is not None:
        prepare(job)
    watch = Watch(line, job["timeout"])
    report = _work(watch, job)
    sys.stdout.flush()
    sys.stderr.flush()
    line.send("done", **report)
    watch.released.wait()
    multiprocessing.util._exit_function()  # type: ignore[attr-defined]  # ends DataLoader workers
    os._exit(0)


def _open_output() -> None:
    for fd, name in ((1, "stdout"), (2, "stderr")):
        file = os.fdopen(fd, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def _work(watch: Watch, job: dict[str, Any]) -> dict[str, Any]:
    try:
        _settle(job)
        fn, args, kwargs = pickle.loads(job["payload"])
        _meet(watch, job)
        dist.install_stop_handlers(unheeded=False)  # Slurm and docker signal every process of a job
        watch.stage = Stage.WITHIN
        try:
            result = fn(*args, **kwargs)
        finally:
            watch.stage = Stage.LEFT
        return {"status": "ok", "value": parcel.pack_result(result)}
    except BaseException as error:
        return {"status": "exit" if isinstance(error, SystemExit) else "error", **_told(error)}


def _settle(job: dict[str, Any]) -> None:
    """Make this process look like the parent: environment, folder, path, sources of cells."""
    seed = os.environ[HASH_SEED]  # that of this process: a later one cannot change it
    os.environ.clear()
    os.environ.update(job["env"], **{HASH_SEED: seed})
    os.environ["OMP_NUM_THREADS"] = str(job["threads"])
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
    os.chdir(job["cwd"])
    sys.path[:] = job["path"]
    alias(job["aliases"])
    sys.argv = job["argv"]
    linecache.cache.update(job["sources"])
    torch.set_num_threads(job["threads"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # a fork would repeat the server's numbers


def _meet(watch: Watch, job: dict[str, Any]) -> None:
    """Join the group, and wait until all ranks have: what fails later fails in the function.

    Slow imports of the function come before this, so that they do not eat the group's time-out.
    """
    if job["debug"]:
        torch.distributed.set_debug_level(torch.distributed.DebugLevel.DETAIL)
    if job.get("place"):  # torchrun's, with a store of its own
        watch.line.send("ready", port=None)
        watch.go.get()
        dist.join(job["place"], job["device"], job["timeout"])
    else:
        _meet_at_home(watch, job)
    if job["tell"]:
        dist.tell_devices()
    watch.line.send("joined")
    watch.go.get()


def _meet_at_home(watch: Watch, job: dict[str, Any]) -> None:
    """Join on one machine. Rank 0 opens the store on a free port; the parent tells the others."""
    rank, size, address = job["rank"], job["ranks"], "127.0.0.1"
    store = None
    if rank == 0:
        port = job["port"] or 0
        store = torch.distributed.TCPStore(address, port, is_master=True, wait_for_workers=False)
        watch.store = store  # the others read it, even when this rank has already refused
    watch.line.send("ready", port=store.port if store else None)
    port = watch.go.get()
    if store is None:
        store = torch.distributed.TCPStore(address, port, is_master=False, wait_for_workers=False)
    # With these, a framework's own "env://" group meets at the same store instead of a new one.
    os.environ.update(TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
    place = EnvWorld(rank, rank, size, size, 0, address, port, "launch")
    dist.join(place, job["device"], job["timeout"], store=store)


def _told(error: BaseException) -> dict[str, Any]:
    """Tell the parent of an exception, its traceback cut to the frames that a user can read."""
    summary = traceback.TracebackException.from_exception(error)
    _cut(summary)
    told = {
        "error": type(error).__name__,
        "message": text_of(error),
        "traceback": "".join(summary.format()),
        "where": where.where_raised(error.__traceback__, failed_in_collective(error)),
        "raised": parcel.pack_error(error) if isinstance(error, DtlibError) else None,
    }
    if isinstance(error, SystemExit):
        told["code"] = error.code
    return told


def _cut(summary: traceback.TracebackException) -> None:
    """Drop the launcher's frames and torch's wrappers, in the causes too."""
    kept = [f for f in summary.stack if not where.is_machinery(f.filename, f.name)]
    summary.stack = traceback.StackSummary.from_list(kept)
    for inner in (summary.__cause__, summary.__context__):
        if inner is not None:
            _cut(inner)
