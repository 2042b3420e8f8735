"""See the functional collectives, which DTensor calls and which reach the process group in C++.

They are operators of `torch.ops`, looked up in their namespace at each call, so that another
callable can stand there for a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch.distributed.distributed_c10d import _resolve_process_group

NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")  # the second: with a gradient
# Names of operators, and what a wire log calls them.
KINDS = {
    "all_reduce": "all_reduce", "broadcast": "broadcast", "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter", "all_to_all_single": "all_to_all_single",
}  # fmt: skip
ENDINGS = ("", "_", "_out", "_coalesced", "_coalesced_")
MESSAGES = {"isend": "send", "irecv": "recv"}
BATCH = "batch_p2p_ops"

Note = Callable[[str, int | None, torch.Tensor, Any], None]


@contextlib.contextmanager
def noted(note: Note) -> Iterator[None]:
    """Call `note(kind, peer, tensor, group)` before each functional call.

    `peer` is None in collectives. `tensor` is what a rank passes; of a reduce-scatter it is one
    shard.
    """
    saved = []
    for namespace in (getattr(torch.ops, name) for name in NAMESPACES):
        for name, tell in _tellers(note).items():
            if hasattr(namespace, name):
                saved.append((namespace, name, getattr(namespace, name)))
                setattr(namespace, name, _Told(saved[-1][2], tell))
    try:
        yield
    finally:
        for namespace, name, original in saved:
            setattr(namespace, name, original)


def _tellers(note: Note) -> dict[str, Callable[..., None]]:
    tellers = {
        name + end: _collective(kind, note) for name, kind in KINDS.items() for end in ENDINGS
    }
    return {**tellers, **{name: _message(kind, note) for name, kind in MESSAGES.items()},
            BATCH: _batch(note)}  # fmt: skip


def _collective(kind: str, note: Note) -> Callable[..., None]:
    def tell(given: Any, *options: Any) -> None:
        for tensor in given if isinstance(given, (list, tuple)) else (given,):
            if kind == "reduce_scatter":
                tensor = tensor.detach().flatten()[: tensor.numel() // options[1]]
            note(kind, None, tensor, _group(options))

    return tell


def _message(kind: str, note: Note) -> Callable[..., None]:
    return lambda tensor, peer, *options: note(kind, int(peer), tensor, _group(options))


def _batch(note: Note) -> Callable[..., None]:
    def tell(names: Any, peers: Any, tags: Any, tensors: Any, *options: Any) -> None:
        for name, peer, tensor in zip(names, peers, tensors, strict=True):
            note(MESSAGES[name], int(peer), tensor, _group(options))

    return tell


def _group(options: tuple) -> Any:
    """The last argument of each: a process group, or its name."""
    last, resolve = options[-1], cast(Callable[[Any], Any], _resolve_process_group)
    return resolve(last) if isinstance(last, str) else last


class _Told:
    """An operator that tells what it is called with."""

    def __init__(self, operator: Any, tell: Callable[..., None]) -> None:
        self.operator, self.tell = operator, tell

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.tell(*args)
        return self.operator(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operator, name)
