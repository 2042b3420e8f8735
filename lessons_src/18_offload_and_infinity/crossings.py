"""Count what really moves: copies between device and host, reads and writes of files.

Nothing here is a formula. `Crossings` sees every copy that torch makes, `counted_files` every
buffer that DeepSpeed hands to its file operator, and `of_kernel` asks Linux what reached the disk.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

COPIES = (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)


class Crossings(TorchDispatchMode):
    """Add up the bytes of torch's copies from the device to the host and back.

    Parameters
    ----------
    host
        On CPU ranks, where both are one memory: the tensors that DeepSpeed would keep on the host
        beside a GPU. Whatever is computed from them is the host's, too. None on a GPU, where the
        tensors themselves say where they are.

    Attributes
    ----------
    bytes
        By direction, "to_host" and "to_device".
    """

    def __init__(self, host: Iterable[torch.Tensor] | None) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()
        self._kept = None if host is None else list(host)  # alive: no other gets their addresses
        self._addresses = {_address(tensor) for tensor in self._kept or ()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _tensors(args)
        from_host = [self._on_host(tensor) for tensor in given]
        out = func(*args, **(kwargs or {}))
        if func is COPIES[0] and from_host[0] != from_host[1]:
            self.bytes["to_host" if from_host[0] else "to_device"] += given[0].nbytes
        elif self._kept is None:
            if func is COPIES[1] and self._on_host(out) != from_host[0]:
                self.bytes["to_device" if from_host[0] else "to_host"] += out.nbytes
        elif func is not COPIES[0] and any(from_host):
            made = _tensors(out)
            self._kept += made
            self._addresses |= {_address(tensor) for tensor in made}
        return out

    def _on_host(self, tensor: torch.Tensor) -> bool:
        if self._kept is None:
            return tensor.device.type == "cpu"
        return _address(tensor) in self._addresses


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@contextlib.contextmanager
def counted_files() -> Iterator[Counter[str]]:
    """Count the bytes of every buffer that DeepSpeed's file operator reads or writes.

    The operator has to be loaded, and whatever uses it has to be made inside the block. The keys
    are "read weights", "write weights", "read optimizer" and "write optimizer".
    """
    from deepspeed.ops.op_builder.builder import OpBuilder

    moved: Counter[str] = Counter()
    operator = OpBuilder._loaded_ops["async_io"]
    real = operator.aio_handle

    def handle(*args: Any, **kwargs: Any) -> _Counting:
        return _Counting(real(*args, **kwargs), moved)

    with mock.patch.object(operator, "aio_handle", handle):
        yield moved


class _Counting:
    """DeepSpeed's handle for files, with a count of what each call moves."""

    def __init__(self, handle: Any, moved: Counter[str]) -> None:
        self._handle, self._moved = handle, moved

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._handle, name)
        verb = {"pread": "read", "pwrite": "write"}.get(name.rpartition("_")[2])
        if verb is None:
            return call

        def counted(buffer: torch.Tensor, path: str, *more: Any) -> Any:
            what = "optimizer" if "optimizer" in Path(path).parts else "weights"
            self._moved[f"{verb} {what}"] += buffer.nbytes
            return call(buffer, path, *more)

        return counted


def of_kernel() -> Counter[str]:
    """Return the bytes that this process has read from and written to disks, says Linux.

    Some file systems (tmpfs, some networked ones) are not counted: both stay 0 then.
    """
    lines = Path("/proc/self/io").read_text().splitlines()
    seen = dict(line.split(": ") for line in lines)
    return Counter({verb: int(seen[f"{verb}_bytes"]) for verb in ("read", "write")})
