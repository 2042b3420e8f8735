"""The batch identity: `global_batch = micro_batch × accumulation × data-parallel size`.

Without a mesh every rank gets samples of its own, and the data-parallel size is the number of
ranks. On a mesh, ranks that differ only along other axes get the same samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtlib.config.mesh import Mesh, arranged
from dtlib.config.pipelines import default_micro_batches
from dtlib.config.values import DEFAULTS
from dtlib.errors import BadInput, counted


@dataclass(frozen=True)
class BatchPlan:
    """How a global batch is divided among the ranks and the micro-batches of each rank.

    `mesh` is how the ranks are arranged (default: all of them along `data`).
    """

    global_batch: int
    micro_batch: int
    accumulation: int
    world_size: int
    mesh: Mesh = None  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        if self.mesh is None:
            object.__setattr__(self, "mesh", Mesh(data=self.world_size))

    def micro_slice(self, micro_step: int, rank: int) -> slice:
        """Return the samples of the global batch that `rank` takes in its `micro_step`-th turn.

        Two ranks with accumulation 1 and one rank with accumulation 2 get the same micro-batches
        in the same order, which makes the two runs bit-equal. Ranks at one data coordinate of the
        mesh get the same samples.
        """
        turn = micro_step * self.mesh.data_size + self.mesh.data_rank(rank)
        return slice(turn * self.micro_batch, (turn + 1) * self.micro_batch)

    def columns(self) -> dict[str, Any]:
        """Return the plan as plain values, for the records of a run; mesh None: data-parallel."""
        alone = self.mesh == Mesh(data=self.world_size)
        return {**dataclasses.asdict(self), "mesh": None if alone else str(self.mesh)}


def planned(settings: Mapping[str, Any], world_size: int) -> BatchPlan:
    """Return how the global batch of a run with these settings is cut over its ranks.

    Raises `BadInput` like `cut`, and when the run's mesh has another number of ranks.
    """
    total, given = settings["global_batch"], settings["micro_batch"]
    accumulation, alone = settings["accumulation"], settings["strategy"] == "single"
    micro = given if isinstance(given, int) else None  # auto: the most that fit
    if total is None and not (micro and accumulation):
        total = DEFAULTS[settings["task"]]["global_batch"]
    mesh = arranged(settings, world_size)
    if micro is None:
        accumulation = accumulation or default_micro_batches(settings, mesh)
    return cut(total, micro, accumulation, world_size, alone=alone, mesh=mesh)


def cut(
    global_batch: int | None,
    micro_batch: int | None,
    accumulation: int | None,
    world_size: int,
    *,
    alone: bool = False,
    mesh: Mesh | None = None,
) -> BatchPlan:
    """Derive the one of the three sizes that is not given; accumulation is 1 unless it is given.

    `alone` means that the run cannot have more ranks, so the error proposes none.

    Raises `BadInput` when the numbers contradict each other; the message contains them.
    """
    mesh = mesh or Mesh(data=world_size)
    size, kind = mesh.data_size, "rank" if mesh.data_size == world_size else "data-parallel rank"
    if global_batch is None:
        if micro_batch is None:
            raise BadInput("give a global batch, or a micro-batch and an accumulation.")
        accumulation = accumulation or 1
        global_batch = micro_batch * accumulation * size
    elif micro_batch is None:
        accumulation = accumulation or 1
        parts = accumulation * size
        what = f"accumulation {accumulation} × {counted(size, kind)} = {parts}"
        micro_batch = _divide(global_batch, parts, what)
    elif accumulation is None:
        parts = micro_batch * size
        what = f"micro-batch {micro_batch} × {counted(size, kind)} = {parts}"
        accumulation = _divide(global_batch, parts, what)
    product = micro_batch * accumulation * size
    if product != global_batch:
        fit, rest = divmod(global_batch, micro_batch * accumulation)
        remedy = f"run {counted(fit, kind)}, or " if rest == 0 and not alone else ""
        raise BadInput(
            f"global batch {global_batch} is not micro-batch {micro_batch}"
            f" × accumulation {accumulation} × {counted(size, kind)} = {product};"
            f" {remedy}give only two of the three."
        )
    return BatchPlan(global_batch, micro_batch, accumulation, world_size, mesh)


def _divide(total: int, parts: int, what: str) -> int:
    quotient, rest = divmod(total, parts)
    if rest:
        below, above = quotient * parts, (quotient + 1) * parts
        nearest = f"{below} or {above}" if below else f"{above}"
        raise BadInput(
            f"global batch {total} is not divisible by {what}; use a global batch of {nearest}."
        )
    return quotient
