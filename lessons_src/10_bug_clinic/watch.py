"""What a rank does while a program runs: its collectives, the ports it asks for, what it writes."""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch.distributed as dist

HOLD = 0.1  # seconds that a rank waits before it writes, so that a race between ranks shows
MESSAGES = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
COLLECTIVES = (
    "all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "gather",
    "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
    "barrier", "monitored_barrier",
)  # fmt: skip


@dataclass
class Seen:
    """What one rank did.

    `calls` are the collectives of all ranks in words, `messages` counts other talk, `ports` are
    those that it asked for, and `written` the folders that it made.
    """

    calls: list[str] = field(default_factory=list)
    messages: int = 0
    ports: list[int] = field(default_factory=list)
    written: list[str] = field(default_factory=list)


_seen: Seen | None = None
_own: set[str] = set()  # folders that tempfile makes: each rank may have one
_hooked = False


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Note what this rank does in the body."""
    global _seen, _hooked
    if not _hooked:  # a hook stays for the life of a process
        sys.addaudithook(_heard)
        _hooked = True
    before = {name: getattr(dist, name) for name in (*COLLECTIVES, *MESSAGES)}
    _seen = seen
    try:
        for name, function in before.items():
            setattr(dist, name, _noting(name, function, seen))
        yield
    finally:
        _seen = None
        for name, function in before.items():
            setattr(dist, name, function)


def _noting(name: str, function: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if name in MESSAGES or bound.arguments.get("group") is not None:
            seen.messages += 1  # not a call that all ranks must make alike
        else:
            seen.calls.append(_words(name, bound.arguments))
        return function(*args, **kwargs)

    return call


def _words(name: str, given: dict[str, Any]) -> str:
    """A call as all ranks must make it: "all_reduce MIN of 1 float32"."""
    words = [name]
    if "op" in given:
        words.append(str(given["op"]).rpartition(".")[2])
    tensor = given.get("tensor")
    if tensor is not None and hasattr(tensor, "numel"):
        words.append(f"of {tensor.numel()} {str(tensor.dtype).removeprefix('torch.')}")
    for name, way in (("src", "from"), ("dst", "to")):
        if given.get(name) is not None:
            words.append(f"{way} rank {given[name]}")
    return " ".join(words)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    """Python's own report of what it is about to do."""
    if _seen is None:
        return
    if event == "socket.bind" and isinstance(args[1], tuple):
        _seen.ports.append(int(args[1][1]))
    elif event == "tempfile.mkdtemp":
        _own.add(str(args[0]))
    elif event == "os.mkdir" and os.fspath(args[0]) not in _own:
        _seen.written.append(os.fspath(args[0]))
        time.sleep(HOLD)
