"""The batch identity: `global_batch = micro_batch × accumulation × world_size`."""

from __future__ import annotations

from dataclasses import dataclass

from dtlib.errors import BadInput, counted


@dataclass(frozen=True)
class BatchPlan:
    """How a global batch is divided among the ranks and the micro-batches of each rank."""

    global_batch: int
    micro_batch: int
    accumulation: int
    world_size: int

    def micro_slice(self, micro_step: int, rank: int) -> slice:
        """Return the samples of the global batch that `rank` takes in its `micro_step`-th turn.

        Two ranks with accumulation 1 and one rank with accumulation 2 get the same micro-batches
        in the same order, which makes the two runs bit-equal.
        """
        start = (micro_step * self.world_size + rank) * self.micro_batch
        return slice(start, start + self.micro_batch)


def cut(
    global_batch: int | None,
    micro_batch: int | None,
    accumulation: int | None,
    world_size: int,
    *,
    alone: bool = False,
) -> BatchPlan:
    """Derive the one of the three sizes that is not given; accumulation is 1 unless it is given.

    `alone` means that the run cannot have more ranks, so the error proposes none.

    Raises `BadInput` when the numbers contradict each other; the message contains them.
    """
    if global_batch is None:
        if micro_batch is None:
            raise BadInput("give a global batch, or a micro-batch and an accumulation.")
        accumulation = accumulation or 1
        global_batch = micro_batch * accumulation * world_size
    elif micro_batch is None:
        accumulation = accumulation or 1
        parts = accumulation * world_size
        what = f"accumulation {accumulation} × {counted(world_size, 'rank')} = {parts}"
        micro_batch = _divide(global_batch, parts, what)
    elif accumulation is None:
        parts = micro_batch * world_size
        what = f"micro-batch {micro_batch} × {counted(world_size, 'rank')} = {parts}"
        accumulation = _divide(global_batch, parts, what)
    product = micro_batch * accumulation * world_size
    if product != global_batch:
        fit, rest = divmod(global_batch, micro_batch * accumulation)
        remedy = f"run {counted(fit, 'rank')}, or " if rest == 0 and not alone else ""
        raise BadInput(
            f"global batch {global_batch} is not micro-batch {micro_batch}"
            f" × accumulation {accumulation} × {counted(world_size, 'rank')} = {product};"
            f" {remedy}give only two of the three."
        )
    return BatchPlan(global_batch, micro_batch, accumulation, world_size)


def _divide(total: int, parts: int, what: str) -> int:
    quotient, rest = divmod(total, parts)
    if rest:
        below, above = quotient * parts, (quotient + 1) * parts
        nearest = f"{below} or {above}" if below else f"{above}"
        raise BadInput(
            f"global batch {total} is not divisible by {what}; use a global batch of {nearest}."
        )
    return quotient
