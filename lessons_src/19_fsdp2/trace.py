"""What FSDP2 does in a step, in order: which unit is gathered, computed, freed and reduced.

A unit is a module that `fully_shard` was called on, with the parameters that no unit inside it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

ROOT = "root"
# torch 2.14's names, and those of older versions
ALL_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


class Event(NamedTuple):
    """What happened to a unit, and afterwards: whose weights are whole.

    `kind` is "gather", "forward", "forward done", "backward", "reduce" or "end". `bytes` are those
    of a gather's whole result or of the gradient that is reduced.
    """

    kind: str
    unit: str
    whole: tuple[str, ...]
    bytes: int = 0


def units(model: nn.Module) -> dict[str, Any]:
    """The units of a model by name, in the order of its modules; the model itself is "root"."""
    return {name or ROOT: m for name, m in model.named_modules() if isinstance(m, FSDPModule)}


def own(unit: nn.Module) -> list[tuple[nn.Module, str]]:
    """The parameters that travel with a unit, as pairs of a module and an attribute's name."""
    found = [(unit, name) for name, _ in unit.named_parameters(recurse=False)]
    for child in unit.children():
        if not isinstance(child, FSDPModule):
            found += own(child)
    return found


def _bytes(pairs: list[tuple[nn.Module, str]]) -> int:
    """Bytes of whole parameters, each once; a DTensor's count is that of the whole tensor."""
    named = {id(p): p for p in (getattr(*pair) for pair in pairs)}
    return sum(p.numel() * p.element_size() for p in named.values())


def most_whole(events: list[Event], sizes: Mapping[str, int]) -> int:
    """The most bytes of weights that were whole at once."""
    return max(sum(sizes[unit] for unit in event.whole) for event in events)


class Note:
    """A collective of one unit, which writes itself down; both kinds allocate plainly."""

    def __init__(self, trace: Trace, kind: str, unit: str) -> None:
        self.trace, self.kind, self.unit = trace, kind, unit

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class Gather(Note):
    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any,
        async_op: bool = False,
    ) -> Any:  # fmt: skip
        self.trace.note(self.kind, self.unit, output_tensor.nbytes)
        return ALL_GATHER(output_tensor, input_tensor, group=group, async_op=async_op)


class Reduce(Note):
    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any,
        async_op: bool = False,
    ) -> Any:  # fmt: skip
        self.trace.note(self.kind, self.unit, input_tensor.nbytes)
        return REDUCE_SCATTER(output_tensor, input_tensor, op, group=group, async_op=async_op)


class Trace:
    """The events of a sharded model while `watching` runs; its collectives stay as they are."""

    def __init__(self, model: nn.Module) -> None:
        self.events: list[Event] = []
        self.units = units(model)
        self.own = {name: own(unit) for name, unit in self.units.items()}
        self.sizes = {name: _bytes(pairs) for name, pairs in self.own.items()}
        for name, unit in self.units.items():
            unit.set_custom_all_gather(Gather(self, "gather", name))
            unit.set_custom_reduce_scatter(Reduce(self, "reduce", name))

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Event]]:
        """Note the events of what the block does."""
        self.events = []
        hooks = [hook for name in self.units for hook in self._hooks(name)]
        try:
            yield self.events
            self.note("end", ROOT)
        finally:
            for hook in hooks:
                hook.remove()

    def _hooks(self, name: str) -> list[Any]:
        unit = self.units[name]

        def after(module: nn.Module, args: Any, output: torch.Tensor) -> None:
            self.note("forward done", name)
            if output.requires_grad:  # called after FSDP's own hook on the same tensor
                output.register_hook(lambda gradient: self.note("backward", name))

        return [
            unit.register_forward_pre_hook(lambda module, args: self.note("forward", name)),
            unit.register_forward_hook(after),
        ]

    def note(self, kind: str, unit: str, size: int = 0) -> None:
        whole = tuple(
            name for name, pairs in self.own.items()
            if any(not isinstance(getattr(*pair), DTensor) for pair in pairs)
        )  # fmt: skip
        self.events.append(Event(kind, unit, whole, size))
