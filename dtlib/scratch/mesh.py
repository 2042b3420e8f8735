"""Who talks to whom when several kinds of parallelism are combined: ranks on a grid.

A **mesh** gives each rank a coordinate on up to four axes. The ranks that differ on one axis alone
form a **group**, and each kind of parallelism talks inside the groups of its own axis. A rank's
number is its coordinates written one after the other, like digits; the last axis runs fastest:

    rank = ((data · P + pipeline) · C + context) · T + tensor

Launchers number the GPUs of a node one after the other. So the groups of the last axis lie inside a
node, and those of the first one reach across the cluster. The axes are ordered by what they need:

| axis | talks | and meanwhile |
| --- | --- | --- |
| data | once per step: all gradients | backward runs on |
| pipeline | twice per micro-batch and stage: an activation, its gradient | others run |
| context | in every layer: keys and values | attention runs |
| tensor | four times in every layer: activations | the rank waits |

Llama 3 has this order (A. Grattafiori et al., arXiv:2407.21783, section 3.3.2). Megatron-LM's
default swaps data and pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from datetime import timedelta
from typing import cast

import torch.distributed as dist

from dtlib.errors import BadInput
from dtlib.ranks import timeouts
from dtlib.sim import mesh as layout
from dtlib.sim.mesh import AXES


@dataclass(frozen=True)
class Mesh:
    """How many ranks lie along each axis.

    Raises
    ------
    BadInput
        If an axis has no rank.
    """

    data: int = 1
    pipeline: int = 1
    context: int = 1
    tensor: int = 1

    def __post_init__(self) -> None:
        for axis, size in zip(AXES, self.sizes, strict=True):
            if size < 1:
                raise BadInput(f"axis {axis} of a mesh is {size}: give it at least 1 rank.")

    def __str__(self) -> str:
        named = zip(AXES, self.sizes, strict=True)
        long = [f"{axis} {size}" for axis, size in named if size > 1]
        return " × ".join(long) or "one rank"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of all axes, the outermost first."""
        return astuple(self)

    @property
    def ranks(self) -> int:
        """How many ranks the mesh has."""
        return math.prod(self.sizes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank lies, by axis.

        Raises
        ------
        BadInput
            If the mesh has no such rank.
        """
        if not 0 <= rank < self.ranks:
            raise BadInput(
                f"rank {rank} is not in a mesh of {self} ({self.ranks} ranks): the last one is "
                f"{self.ranks - 1}."
            )
        found = {}
        for axis, size in reversed([*zip(AXES, self.sizes, strict=True)]):
            rank, found[axis] = divmod(rank, size)
        return found

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """The rank at these coordinates; an axis that is not named is at 0."""
        rank = 0
        for axis, size in zip(AXES, self.sizes, strict=True):
            rank = rank * size + coordinates.get(axis, 0)
        return rank

    def groups(self, *axes: str) -> list[list[int]]:
        """All groups of an axis, or of several together: ranks that differ on nothing else.

        The ranks with the same weights, for example, are those of `groups("data", "context")`.

        Raises
        ------
        BadInput
            For an axis that there is not.
        """
        unknown = {*axes} - {*AXES}
        if unknown or not axes:
            asked = ", ".join(sorted(unknown)) or "no axis"
            raise BadInput(f"a mesh has the axes {', '.join(AXES)}: {asked} was asked.")
        found: list[list[int]] = layout.groups(axes, asdict(self))
        return found


def make_groups(mesh: Mesh, *axes: str, timeout: float = timeouts.RUN) -> dist.ProcessGroup:
    """Make all process groups of one axis, or of several together; return this rank's own.

    Every rank makes every group, also those that it is not in, and all of them in the same order:
    `new_group` is a collective of the whole world. A wait in a group ends after `timeout` seconds
    (`new_group` would take half an hour).

    Raises
    ------
    BadInput
        If the mesh is not for as many ranks as there are.
    """
    if mesh.ranks != dist.get_world_size():
        raise BadInput(
            f"a mesh of {mesh} has {mesh.ranks} ranks, but {dist.get_world_size()} were started: "
            "the product of the axes has to be the number of ranks."
        )
    all_of_them = mesh.groups(*axes)
    limit = timedelta(seconds=timeout)
    made = [dist.new_group(ranks, limit) for ranks in all_of_them]
    mine = next(k for k, ranks in enumerate(all_of_them) if dist.get_rank() in ranks)
    return cast(dist.ProcessGroup, made[mine])
