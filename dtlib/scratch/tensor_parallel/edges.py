"""The two edges of a tensor-parallel region: which operators stand there, and for which ranks.

A layer is told its edges and nothing else about parallelism. So the same layer runs with or without
sequence parallelism, on all ranks or inside a group of a mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from dtlib.scratch.tensor_parallel.operators import f, f_sequence, g, g_sequence
from dtlib.scratch.tensor_parallel.parameters import Group, Partial

Operator = Callable[[Tensor, Group], Tensor]


@dataclass(frozen=True)
class Edges:
    """What stands at the two edges of a tensor-parallel region, and which ranks share it.

    Attributes
    ----------
    f, g
        f and g, or their twins.
    shared
        What a parameter outside of the region is. With f and g every rank computes its whole
        gradient. With the twins a rank sees only its own positions, and its gradient is `Partial`.
    group
        The ranks, by default all.
    """

    f: Operator
    g: Operator
    shared: type[nn.Parameter]
    group: Group = None

    def __deepcopy__(self, memo: Any) -> Edges:
        return self  # a process group has no copy

    @property
    def sequence(self) -> bool:
        """Whether a rank holds only its own positions outside of the region."""
        return self.shared is Partial

    def within(self, group: Group) -> Edges:
        """The same, for the ranks of a group."""
        return replace(self, group=group)

    def enter(self, x: Tensor) -> Tensor:
        return self.f(x, self.group)

    def leave(self, x: Tensor) -> Tensor:
        return self.g(x, self.group)


TENSOR = Edges(f, g, nn.Parameter)
SEQUENCE = Edges(f_sequence, g_sequence, Partial)
