"""Context parallelism, which torch's `context_parallel` has for GPUs and not for a CPU.

Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dtlib.errors import Unavailable
from dtlib.strategies.base import Strategy
from dtlib.strategies.needs import instead

if TYPE_CHECKING:
    from dtlib.config import RunConfig


class Context(Strategy):
    """Each rank would have a part of every sequence; no machine that dtlib was run on can do it.

    On gloo torch 2.14's `context_parallel` ends with "Operator
    aten._scaled_dot_product_flash_attention_for_cpu.default does not have a sharding strategy
    registered", and it has never been tried on several GPUs here. So it is refused by name, with
    what divides the memory of a long sequence instead.
    """

    axes: ClassVar[tuple[str, ...]] = ("context", "data")

    @classmethod
    def check(cls, config: RunConfig, world_size: int) -> None:
        super().check(config, world_size)
        raise Unavailable(
            "strategy context needs torch's context_parallel, whose attention has no operator for a"
            " CPU and which dtlib has not been run with on GPUs; for long sequences use strategy"
            f" {instead('tensor', config)}, or strategy {instead('fsdp', config)} with"
            " activation_checkpointing full."
        )


STRATEGIES = {"context": Context}
