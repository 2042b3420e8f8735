"""Count bytes by what they are for, and none of them twice.

Frameworks keep tensors as views of larger buffers: DDP's gradients are in its buckets, ZeRO's
weights in one flat tensor. So a census marks spans of storages, and whatever is left of a storage
when all its tensors are marked is padding.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator

import torch

KINDS = (
    "parameters", "gradients", "optimizer", "fp32_copy", "counters", "buffers", "padding",
    "activations", "communication", "other",
)  # fmt: skip
"""What bytes are for. `counters` are Adam's step counts, one per parameter; `padding` is the rest
of the storages that hold the kinds before it."""


class Census:
    """Bytes by kind at one moment; if two kinds claim a byte, the first gets it.

    Attributes
    ----------
    bytes
        Kind to bytes.
    on_host
        The same, for bytes in the CPU's memory only.
    """

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self.on_host: dict[str, int] = {}
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}

    def add(self, kind: str, tensors: Iterable[torch.Tensor]) -> None:
        """Mark the spans of `tensors` that no kind has yet; each is local to this rank."""
        self._note(kind, 0, "cpu")
        for tensor in tensors:
            storage = storage_of(tensor)
            if storage is None:
                continue
            # a tensor whose storage was freed (resized to 0) still has its shape
            stop = min(storage.nbytes(), _end(tensor))
            start = min(stop, int(tensor.storage_offset()) * tensor.element_size())
            self._claim(kind, storage, start, stop)

    def add_whole(self, kind: str, storages: Iterable[torch.UntypedStorage]) -> None:
        """Mark all of `storages` that no kind has yet."""
        self._note(kind, 0, "cpu")
        for storage in storages:
            self._claim(kind, storage, 0, storage.nbytes())

    def close(self, kind: str = "padding") -> None:
        """Mark the unmarked rest of the storages seen so far as `kind`."""
        self.add_whole(kind, self.storages())

    def storages(self) -> list[torch.UntypedStorage]:
        """Return all storages in which something was marked."""
        return list(self._storages.values())

    def _claim(self, kind: str, storage: torch.UntypedStorage, start: int, stop: int) -> None:
        key = key_of(storage)
        self._storages[key] = storage
        fresh = _mark(self._spans.setdefault(key, []), start, stop)
        self._note(kind, fresh, storage.device.type)

    def _note(self, kind: str, size: int, device: str) -> None:
        self.bytes[kind] = self.bytes.get(kind, 0) + size
        self.on_host[kind] = self.on_host.get(kind, 0) + (size if device == "cpu" else 0)


class WhileAlive:
    """Storages that are remembered as long as they live, without being kept alive."""

    def __init__(self, storages: Iterable[torch.UntypedStorage] = ()) -> None:
        self._alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        for storage in storages:
            self.add(storage)

    def add(self, storage: torch.UntypedStorage) -> None:
        key = key_of(storage)
        if key not in self._alive:
            self._alive[key] = weakref.ref(storage, lambda _: self._alive.pop(key))

    def __contains__(self, storage: torch.UntypedStorage) -> bool:
        return key_of(storage) in self._alive

    def __iter__(self) -> Iterator[torch.UntypedStorage]:
        refs = list(self._alive.values())
        return iter([storage for ref in refs if (storage := ref()) is not None])


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Return the memory of a tensor; None if it has none of its own."""
    if is_wrapper(type(tensor)) or tensor.device.type == "meta" or tensor.layout != torch.strided:
        return None
    return tensor.untyped_storage()


def key_of(storage: torch.UntypedStorage) -> int:
    """Return a key that is unique among living storages; it is reused when a storage dies."""
    return storage._cdata


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this rank holds of a tensor, which may be a DTensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def is_wrapper(kind: type) -> bool:
    """Return whether tensors of this class only stand for others, as DTensors do."""
    plain = torch._C._disabled_torch_dispatch_impl
    return getattr(kind, "__torch_dispatch__", plain) is not plain


def storages(tensors: Iterable[torch.Tensor]) -> dict[int, torch.UntypedStorage]:
    """Return the storages of `tensors` by their keys, each once."""
    return {key_of(s): s for s in map(storage_of, tensors) if s is not None}


def alive() -> Iterator[torch.UntypedStorage]:
    """Yield the storage of every tensor that Python knows in this process."""
    tensors: dict[type, bool] = {}
    for thing in gc.get_objects():
        kind = type(thing)  # isinstance() would wake lazy proxies that other packages leave around
        if kind not in tensors:
            tensors[kind] = issubclass(kind, torch.Tensor)
        storage = storage_of(thing) if tensors[kind] else None
        if storage is not None:
            yield storage


def _end(tensor: torch.Tensor) -> int:
    """Return the first byte of its storage after a tensor's last element."""
    end = int(tensor.storage_offset())
    if tensor.numel():
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        end += 1 + sum((size - 1) * stride for size, stride in steps)
    return end * tensor.element_size()


def _mark(spans: list[tuple[int, int]], start: int, stop: int) -> int:
    """Add [start, stop) to disjoint spans, and return how many of its bytes are new."""
    touching = [span for span in spans if span[0] <= stop and span[1] >= start]
    fresh = stop - start - sum(min(b, stop) - max(a, start) for a, b in touching)
    ends = [*touching, (start, stop)]
    spans[:] = [span for span in spans if span not in touching]
    spans.append((min(a for a, _ in ends), max(b for _, b in ends)))
    return fresh
