"""Activations: the tensors that autograd keeps for backward, seen through saved-tensor hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dtlib.measure.ledger.census import key_of, local, storage_of


class SavedTensors:
    """Add up the storages that autograd keeps alive while a `with` block runs.

    A region under activation checkpointing has hooks of its own, which hide its content: its inputs
    are seen, but what backward recomputes is not.

    Parameters
    ----------
    is_known
        Tells whether a storage counts as something else (a parameter, a buffer).
    on_change
        Called after a tensor was saved, and before one is used.

    Attributes
    ----------
    bytes, most
        Bytes kept now, and the most so far.
    """

    def __init__(
        self,
        is_known: Callable[[torch.UntypedStorage], bool],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.bytes = self.most = 0
        self._is_known, self._on_change = is_known, on_change
        self._times: dict[int, int] = {}  # by storage: how many saved tensors are in it
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)

    def __enter__(self) -> SavedTensors:
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._hooks.__exit__(*exception)

    def keep(self, storage: torch.UntypedStorage) -> None:
        """Count a storage once, however many saved tensors are in it."""
        key = key_of(storage)
        self._times[key] = self._times.get(key, 0) + 1
        if self._times[key] == 1:
            self.bytes += storage.nbytes()
            self.most = max(self.most, self.bytes)

    def release(self, key: int, size: int) -> None:
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]
            self.bytes -= size

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor | _Kept:
        with torch.no_grad():  # of a DTensor, the part of this rank
            storage = storage_of(local(tensor))
        if storage is None or self._is_known(storage):
            return tensor
        kept = _Kept(tensor, storage, self)
        self._on_change()
        return kept

    def _unpack(self, packed: torch.Tensor | _Kept) -> torch.Tensor:
        self._on_change()
        return packed.tensor if isinstance(packed, _Kept) else packed


class _Kept:
    """A saved tensor; autograd drops it as soon as backward no longer needs it."""

    def __init__(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, owner: SavedTensors
    ) -> None:
        self.tensor, self._owner = tensor, owner
        self._key, self._size = key_of(storage), storage.nbytes()
        owner.keep(storage)

    def __del__(self) -> None:
        self._owner.release(self._key, self._size)
