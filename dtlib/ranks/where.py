"""What a rank is doing: its innermost line of user code, and the torch call that it waits in."""

from __future__ import annotations

import json
import linecache
import math
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType, TracebackType
from typing import Any

_PACKAGE = str(Path(__file__).parent.parent)
_RANKS = str(Path(__file__).parent)
_FOREIGN = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {"<frozen", "<string>"}
)
# How torch names the tensors in its collectives' signatures, the one that is sent first.
_TENSORS = ("tensor", "input", "input_tensor", "tensor_list", "scatter_list", "output")
# Waiting for a message that was posted before: `work.wait()`, `dist.irecv(x, 1).wait()`.
_WAIT_FOR = re.compile(r"(\w+)\.wait\(|\bi(recv|send)\(.*\)\.wait\(")
_MESSAGES = {12: "send", 13: "recv"}  # c10d's OpType, as a `Work` reports it
# Functions of torch's c10d that query or post something and return at once: no rank waits in them.
_NO_WAIT = ("get_", "is_", "isend", "irecv", "batch_isend")
_DTYPES = {"Float": "float32", "Double": "float64", "Long": "int64", "Half": "float16"}


@dataclass(frozen=True)
class Where:
    """A place in a rank's program; `call` is the torch.distributed call it waits in, or empty.

    `hidden`: the line waits or has called into a library, and no Python frame shows what it waits
    in; `left`: the function has ended, and the rank's own report is on its way.
    """

    call: str = ""
    what: str = ""  # "4 float32"
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    cell: bool = False
    hidden: bool = False
    left: bool = False

    @property
    def place(self) -> str:
        """The line in words: "cell line 3", "train.py:12"."""
        if not self.line:
            return ""
        return f"cell line {self.line}" if self.cell else f"{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        if self.call:
            text = f"waiting in {self.call}" + (f" of {self.what}" if self.what else "")
        elif self.function:
            text = f"running `{self.source}`" if self.source else f"in {self.function}"
        else:
            return "already out of the function" if self.left else "not yet in the function"
        return f"{text} ({self.place})" if self.place else text


def where_now() -> Where:
    """Look at the main thread of this process, from another one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return describe(list(walk_stack(frame)) if frame else [])


def handled_error() -> BaseException | None:
    """Return the error that the main thread is handling, or that is propagating in it."""
    found: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    return found[1] if isinstance(found, tuple) else found  # a tuple up to Python 3.11


def where_raised(traceback: TracebackType | None, in_collective: bool) -> Where:
    """Say where an exception came from; `in_collective`: its text says that a collective failed."""
    frames = list(walk_tb(traceback))[::-1]
    found = describe(frames, failed_collective if in_collective else None)
    return replace(found, call=found.call or "a collective") if in_collective else found


def describe(
    frames: list[tuple[FrameType, int]], failed: Callable[[], tuple[str, str]] | None = None
) -> Where:
    """Describe a stack, innermost frame first; `failed` names the collective that failed there."""
    # a frame has no line while Python runs an instruction that belongs to none
    frames = [(frame, line or frame.f_code.co_firstlineno) for frame, line in frames]
    at = _user_frame(frames)
    if at is None:
        return Where()
    frame, line = frames[at]
    code = frame.f_code
    source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    call, what = _torch_call(frame for frame, _ in reversed(frames[:at]))
    if not call:  # the running line may be in a function of dtlib's that a user called
        inner, number = frames[0]
        text = linecache.getline(inner.f_code.co_filename, number, inner.f_globals)
        call = _message(text.strip(), inner)
    hidden = not call and (at > 0 or ".wait(" in source)
    if not call and (failed or hidden):
        call, what = (failed or pending_collective)()
    return Where(
        call, what, code.co_filename, line, code.co_name, source, is_cell(code.co_filename), hidden
    )


def is_cell(filename: str) -> bool:
    """Return whether code came from a notebook's cell rather than from a file."""
    return "ipykernel_" in filename or filename.startswith(("<ipython-input", "<ranks cell"))


def is_foreign(filename: str) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    return filename.startswith(_FOREIGN) and not filename.startswith(_PACKAGE)


def _user_frame(frames: list[tuple[FrameType, int]]) -> int | None:
    """Find the innermost frame of the user's code, otherwise of dtlib's above the launcher."""
    files = [frame.f_code.co_filename for frame, _ in frames]
    for i, name in enumerate(files):
        if not is_foreign(name) and not name.startswith(_PACKAGE):
            return i
    for i, name in enumerate(files):
        if name.startswith(_PACKAGE) and not name.startswith(_RANKS):
            return i
    return None


def _torch_call(frames: Iterable[FrameType]) -> tuple[str, str]:
    """Name the first waiting c10d function that the user's line called, and its tensor."""
    for frame in frames:
        name = frame.f_code.co_name
        in_c10d = frame.f_code.co_filename.endswith("torch/distributed/distributed_c10d.py")
        public = name in frame.f_globals.get("__all__", ())
        if in_c10d and public and is_waiting(name):
            local = frame.f_locals
            found = (local[key] for key in _TENSORS if local.get(key) is not None)
            return name, _tensor_words(next(found, None))
    return "", ""


def is_waiting(name: str) -> bool:
    """Return whether a public function of c10d may wait for other ranks, by its name."""
    return not name.startswith(("_", *_NO_WAIT))


def _message(source: str, frame: FrameType) -> str:
    """Name the posted message that a line waits for: the flight recorder has none of gloo's.

    It is found by the name that the line waits on, since other messages may be in flight too.
    """
    found = _WAIT_FOR.search(source)
    if found is None or found[2]:
        return found[2] if found else ""
    work: Any = frame.f_locals.get(found[1])
    is_work = isinstance(work, getattr(sys.modules.get("torch.distributed"), "Work", ()))
    return _MESSAGES.get(work._get_op_type(), "") if is_work else ""


def _tensor_words(value: Any) -> str:
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if not hasattr(value, "dtype"):
        return ""
    return f"{value.numel()} {str(value.dtype).removeprefix('torch.')}"


@dataclass(frozen=True)
class Wait:
    """What the flight recorder showed at one moment.

    The oldest collective that had not ended, if any; the number of the newest; and how much CPU
    time the main thread had used by then.
    """

    oldest: dict[str, Any] | None
    newest: int | None
    used: float

    @property
    def words(self) -> tuple[str, str]:
        return _collective_words(self.oldest) if self.oldest else ("", "")


_last: Wait | None = None


def main_thread_seconds() -> float:
    """Return the CPU time of the main thread; 0 where the system does not say.

    A waiting thread uses none: as long as this stays the same, the thread is in the same wait.
    """
    clock = getattr(time, "pthread_getcpuclockid", None)
    return time.clock_gettime(clock(threading.main_thread().ident)) if clock else 0.0


def pending_collective(*, waits: bool = False) -> tuple[str, str]:
    """Ask torch's flight recorder for the oldest collective that has not ended.

    It sees what no Python frame shows: DDP's all-reduces and `work.wait()`. It keeps no
    point-to-point calls on gloo, and under DETAIL it sees the checks instead of the calls.
    `waits`: the main thread is known to wait, so that finding none also counts as an answer.
    """
    global _last
    used = main_thread_seconds()
    if _last is not None and used and _last.used == used:
        return _last.words  # if it has failed by now, the thread has not woken up yet
    entries = _flight_record()
    pending = _pending(entries)
    seen = Wait(pending[0] if pending else None, _newest(entries), used)
    if pending or waits:
        _last = seen
    return seen.words


def failed_collective() -> tuple[str, str]:
    """Name the collective that the main thread was waiting for when it failed.

    The flight recorder no longer tells it apart from others that began with it, such as DDP's
    buckets; what was seen during the wait does, if nothing has begun since.
    """
    entries = _flight_record()
    if _last is not None and _last.newest == _newest(entries):
        return _last.words
    found = _pending(entries) or entries[-1:]
    return _collective_words(found[0]) if found else ("", "")


def _newest(entries: list[dict[str, Any]]) -> int | None:
    return entries[-1].get("record_id") if entries else None


def _flight_record() -> list[dict[str, Any]]:
    try:
        import torch.distributed as dist
        from torch._C._distributed_c10d import _dump_fr_trace_json  # type: ignore

        if dist.get_debug_level() == dist.DebugLevel.DETAIL:
            return []
        return json.loads(_dump_fr_trace_json()).get("entries", [])
    except Exception:  # a private interface: without it, the line of code must suffice
        return []


def _pending(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry.get("retired") is False]


def _collective_words(entry: dict[str, Any]) -> tuple[str, str]:
    name = entry.get("profiling_name", "a collective").rpartition(":")[2]
    sizes, dtypes = entry.get("input_sizes"), entry.get("input_dtypes")
    if not sizes or not dtypes:
        return name, ""
    return name, sized(math.prod(sizes[0]), dtypes[0])


def sized(numel: int, dtype: str) -> str:
    """Return a tensor in words, "4 float32"; `dtype` is the flight recorder's name of the type."""
    return f"{numel} {_DTYPES.get(dtype, dtype.lower())}"


def is_machinery(filename: str, function: str) -> bool:
    """Return whether a traceback's frame does not help its reader: ours, or torch's wrapper."""
    ours = filename.startswith(_RANKS) or filename.endswith("/learn/magic.py")
    return ours or (function == "wrapper" and "torch" in filename)
