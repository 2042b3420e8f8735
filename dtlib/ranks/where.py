"""What a rank is doing: its innermost line of user code, and the torch call that it waits in."""

from __future__ import annotations

import json
import linecache
import math
import sys
import sysconfig
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
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
# Functions of torch's c10d that ask or post and return at once: nobody waits in them.
_NO_WAIT = ("get_", "is_", "isend", "irecv", "batch_isend")
_DTYPES = {"Float": "float32", "Double": "float64", "Long": "int64", "Half": "float16"}


@dataclass(frozen=True)
class Where:
    """A place in a rank's program; `call` is the torch.distributed call it waits in, or empty."""

    call: str = ""
    what: str = ""  # "4 float32"
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    cell: bool = False

    @property
    def place(self) -> str:
        """Say where the line is: "cell line 3", "train.py:12"."""
        if not self.line:
            return ""
        return f"cell line {self.line}" if self.cell else f"{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        if self.call:
            text = f"waiting in {self.call}" + (f" of {self.what}" if self.what else "")
        elif self.function:
            text = f"running `{self.source}`" if self.source else f"in {self.function}"
        else:
            return "not yet in the function, or already out of it"
        return f"{text} ({self.place})" if self.place else text


def where_now() -> Where:
    """Look at the main thread of this process, from another one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return describe(_outwards(frame))


def where_raised(traceback: TracebackType | None, in_collective: bool) -> Where:
    """Say where an exception came from; `in_collective`: its text says that one failed."""
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    found = describe(frames[::-1])
    if in_collective and not found.call:
        call, what = pending_collective(ended=True)
        found = replace(found, call=call or "a collective", what=what)
    return found


def _outwards(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    frames = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return frames


def describe(frames: list[tuple[FrameType, int]]) -> Where:
    """Describe a stack, innermost frame first."""
    at = _user_frame(frames)
    if at is None:
        return Where()
    frame, line = frames[at]
    code = frame.f_code
    source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    call, what = _torch_call(frame for frame, _ in reversed(frames[:at]))
    if not call and (at > 0 or ".wait(" in source):
        call, what = pending_collective()
    return Where(
        call, what, code.co_filename, line, code.co_name, source, is_cell(code.co_filename)
    )


def is_cell(filename: str) -> bool:
    """Say whether code came from a notebook's cell rather than from a file."""
    return "ipykernel_" in filename or filename.startswith(("<ipython-input", "<ranks cell"))


def is_foreign(filename: str) -> bool:
    """Say whether a file belongs to Python or to an installed package."""
    return filename.startswith(_FOREIGN) and not filename.startswith(_PACKAGE)


def _user_frame(frames: list[tuple[FrameType, int]]) -> int | None:
    """Find the innermost frame of the user's own code, else of dtlib's above the launcher."""
    files = [frame.f_code.co_filename for frame, _ in frames]
    for i, name in enumerate(files):
        if not is_foreign(name) and not name.startswith(_PACKAGE):
            return i
    for i, name in enumerate(files):
        if name.startswith(_PACKAGE) and not name.startswith(_RANKS):
            return i
    return None


def _torch_call(frames: Iterable[FrameType]) -> tuple[str, str]:
    """Name the first c10d function that waits and that the user's line called, and its tensor."""
    for frame in frames:
        name = frame.f_code.co_name
        in_c10d = frame.f_code.co_filename.endswith("torch/distributed/distributed_c10d.py")
        public = name in frame.f_globals.get("__all__", ())
        if in_c10d and public and not name.startswith(_NO_WAIT):
            local = frame.f_locals
            found = (local[key] for key in _TENSORS if local.get(key) is not None)
            return name, _tensor_words(next(found, None))
    return "", ""


def _tensor_words(value: Any) -> str:
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if not hasattr(value, "dtype"):
        return ""
    return f"{value.numel()} {str(value.dtype).removeprefix('torch.')}"


def pending_collective(ended: bool = False) -> tuple[str, str]:
    """Ask torch's flight recorder for the oldest collective that has not ended, or the last one.

    It sees what no Python frame shows: DDP's all-reduces and `work.wait()`. It keeps no
    point-to-point calls on gloo, and under DETAIL it sees the checks instead of the calls.
    """
    try:
        import torch.distributed as dist
        from torch._C._distributed_c10d import _dump_fr_trace_json  # type: ignore

        if dist.get_debug_level() == dist.DebugLevel.DETAIL:
            return "", ""
        entries = json.loads(_dump_fr_trace_json()).get("entries", [])
    except Exception:  # a private interface: without it, the line of code must do
        return "", ""
    pending = [entry for entry in entries if entry.get("retired") is False]
    if not pending and not (ended and entries):
        return "", ""
    entry = pending[0] if pending else entries[-1]
    name = entry.get("profiling_name", "a collective").rpartition(":")[2]
    sizes, dtypes = entry.get("input_sizes"), entry.get("input_dtypes")
    if not sizes or not dtypes:
        return name, ""
    return name, f"{math.prod(sizes[0])} {_DTYPES.get(dtypes[0], dtypes[0].lower())}"


def is_machinery(filename: str, function: str) -> bool:
    """Say whether a frame of a traceback tells its reader nothing: ours, or torch's wrapper."""
    ours = filename.startswith(_RANKS) or filename.endswith("/learn/magic.py")
    return ours or (function == "wrapper" and "torch" in filename)
