"""One process: the baseline of every other strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlib.errors import BadInput
from dtlib.strategies.base import Strategy

if TYPE_CHECKING:
    from dtlib.config import RunConfig


class Single(Strategy):
    """The whole global batch on one rank, in micro-batches if requested."""

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        super().check(config, world_size)
        if world_size != 1:
            raise BadInput(f"strategy single is one rank, not {world_size}; use strategy ddp.")


STRATEGIES = {"single": Single}
