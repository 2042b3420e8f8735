"""Count collectives in the place that all of them pass: torch's dispatcher.

DDP's all-reduces are started from C++, those of FSDP and DeepSpeed from Python, some as coalesced
calls, some on DTensors. In the end each is an operator of the namespace `c10d`, where torch's own
CommDebugMode counts calls. This module also counts bytes, and point-to-point messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from dtlib.config.mesh import Mesh
from dtlib.sim.collectives import ring_wire_bytes

# Prefixes of torch's operator names, and what torch.distributed calls them.
NAMES = {
    "allreduce": "all_reduce", "all_reduce": "all_reduce",
    "allgather": "all_gather", "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter", "reduce": "reduce",
    "alltoall": "all_to_all", "all_to_all": "all_to_all",
    "broadcast": "broadcast", "gather": "gather", "scatter": "scatter",
    "send": "send", "isend": "send", "recv": "recv", "irecv": "recv",
    "barrier": "barrier", "monitored_barrier": "barrier",
}  # fmt: skip
NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")


@dataclass
class Tally:
    """How often a collective was called, and with how many bytes.

    Attributes
    ----------
    calls
        Measured.
    payload
        Bytes of the whole tensor, measured: the input or the output of the call on this rank,
        whichever is larger. An all-gather of N shards of S/N bytes has payload S.
    wire
        Bytes that this rank would send if a ring did the work; derived from the payload.
    """

    calls: int = 0
    payload: int = 0
    wire: float = 0.0

    def add(self, payload: int, wire: float) -> None:
        self.calls += 1
        self.payload += payload
        self.wire += wire


class CollectiveLog(TorchDispatchMode):
    """Tally the collectives of this process while a `with` block runs.

    Parameters
    ----------
    on_call
        Called with the tensors of each call before it starts.
    mesh
        How the ranks are arranged, if they have several axes.

    Attributes
    ----------
    tallies
        Name of the collective to its tally.
    along
        The same by name and axis, as in "all_reduce along tensor"; empty without a mesh.
    """

    def __init__(
        self,
        on_call: Callable[[list[torch.Tensor]], None] = lambda _: None,
        mesh: Mesh | None = None,
    ) -> None:
        super().__init__()
        self.tallies: dict[str, Tally] = {}
        self.along: dict[str, Tally] = {}
        self._mesh = mesh
        self._on_call = on_call

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled code run as it does without this mode, instead of falling back to eager."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(hasattr(kind, "to_local") for kind in types):
            return NotImplemented  # a DTensor unwraps itself first, and then comes here again
        kwargs = kwargs or {}
        name = _name(func)
        if name is None:
            return func(*args, **kwargs)
        given = list(_tensors(args))
        self._on_call(given)
        result = func(*args, **kwargs)
        payload = 0 if name == "barrier" else max(_bytes(args), _bytes(result))
        ranks = _ranks(args)
        wire = ring_wire_bytes(name, payload, len(ranks))
        self.tallies.setdefault(name, Tally()).add(payload, wire)
        if self._mesh is not None:
            axis = f"{name} along {self._mesh.along(ranks) or 'no axis'}"
            self.along.setdefault(axis, Tally()).add(payload, wire)
        return result


def _name(func: Any) -> str | None:
    """Return the name of the collective that an operator is; None for anything else, even waits."""
    if getattr(func, "namespace", None) not in NAMESPACES:
        return None
    word = func._schema.name.partition("::")[2].strip("_")
    found = [start for start in NAMES if word.startswith(start)]
    return NAMES[max(found, key=len)] if found else None


def _tensors(args: Any) -> Iterator[torch.Tensor]:
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _tensors(arg)


def _bytes(args: Any) -> int:
    """Return the bytes of the largest argument, which may be a tensor or nested lists of them."""
    several = args if isinstance(args, tuple) else (args,)
    sizes = (sum(t.numel() * t.element_size() for t in _tensors([arg])) for arg in several)
    return max(sizes, default=0)


def _ranks(args: Any) -> list[int]:
    """Return which ranks take part, from the operator's process group or the group's name."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject) and "ProcessGroup" in str(arg._type()):
            return dist.get_process_group_ranks(dist.ProcessGroup.unbox(arg))
    names = [arg for arg in args if isinstance(arg, str)]
    if names:
        group: Any = names[-1]
        return dist.get_process_group_ranks(dist.distributed_c10d._resolve_process_group(group))
    return [*range(dist.get_world_size())]
