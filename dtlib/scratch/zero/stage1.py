"""ZeRO stage 1, P_os: every rank holds the whole model, and the optimizer state of one Nth of it.

A step reduce-scatters the gradients, so that a rank receives the mean of its own shard only,
updates that shard, and all-gathers the parameters. With a ring each rank sends (N-1)/N·Ψ elements
in each of the two: together an all-reduce, 2(N-1)/N·Ψ, however many micro-batches came before.

Bytes held, in fp32: 4Ψ of parameters, 4Ψ of gradients, 8Ψ/N of AdamW's state; in mixed precision
2Ψ + 2Ψ + 12Ψ/N. Parameters and state include their padding.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC20, section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from dtlib.scratch.data_parallel.buckets import CAP_BYTES, assign_buckets
from dtlib.scratch.data_parallel.naive import trainable
from dtlib.scratch.zero.optimizers import Rule
from dtlib.scratch.zero.partition import Bucket, matrices
from dtlib.scratch.zero.step import Shard, Zero


class ZeroStage1(Zero):
    """Shard the optimizer state.

    Parameters
    ----------
    model
        Equal in shape on all ranks; all start with rank 0's weights. Its parameters become views.
    rule
        `AdamW` or `SGD` of this package.
    cap_bytes
        The most bytes in a bucket, each of which is padded and sharded by itself.
    decays
        Which parameters are decayed; by default those of two dimensions or more.
    """

    def __init__(
        self,
        model: nn.Module,
        rule: Rule,
        cap_bytes: int = CAP_BYTES,
        decays: Callable[[nn.Parameter], bool] = matrices,
    ) -> None:
        self.cap_bytes = cap_bytes
        super().__init__(model, rule, decays)

    def partition(self, model: nn.Module) -> list[list[nn.Parameter]]:
        return assign_buckets(trainable(model), self.cap_bytes)

    def reduced(self, bucket: Bucket, shard: Shard) -> torch.Tensor:
        self.keep_gradient(bucket, shard)
        return super().reduced(bucket, shard)

    def share(self) -> None:
        for bucket in self.buckets:
            self.wire.all_gather(bucket.flat)

    def held(self) -> dict[str, list[torch.Tensor]]:
        whole = [p.grad for b in self.buckets for p in b.params if p.grad is not None]
        held = super().held()
        return {**held, "gradients": held["gradients"] + whole}
