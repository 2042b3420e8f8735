"""ZeRO stage 2, P_os+g: like stage 1, but a rank also keeps only its own shard of the gradients.

As soon as backward has filled a bucket, its gradients are reduce-scattered and dropped, while the
layers below are still to come, so a rank never holds all gradients. It cannot send later what it
has not kept, so this happens in every micro-batch: with k of them a rank sends (k+1)·(N-1)/N·Ψ
elements per step, all-gather included. Stage 1 sends 2(N-1)/N·Ψ.

Bytes held, in fp32: 4Ψ of parameters, 4Ψ/N of gradients, 8Ψ/N of AdamW's state; in mixed precision
2Ψ + 2Ψ/N + 12Ψ/N. All of these include their padding.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC20, section 5.2.
"""

from __future__ import annotations

from typing import Any

import torch

from dtlib.scratch.zero.partition import Bucket
from dtlib.scratch.zero.stage1 import ZeroStage1
from dtlib.scratch.zero.step import Shard, Zero


class ZeroStage2(ZeroStage1):
    """Shard the optimizer state and the gradients; the parameters are those of `ZeroStage1`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.home = {p: index for index, b in enumerate(self.buckets) for p in b.params}
        self._begin()
        for p in self.home:
            p.register_post_accumulate_grad_hook(self._gradient_is_there)

    def backward(self, loss: torch.Tensor) -> None:
        """Run backward; every bucket is sent during it, or at its end if a gradient is missing."""
        loss.backward()
        while self.left < len(self.buckets):
            self._reduce_next()
        self._begin()

    def reduced(self, bucket: Bucket, shard: Shard) -> torch.Tensor:
        return Zero.reduced(self, bucket, shard)  # kept in backward

    def _begin(self) -> None:
        self.missing = [len(bucket.params) for bucket in self.buckets]
        self.left = 0  # how many buckets have been sent in this micro-batch

    def _gradient_is_there(self, p: torch.Tensor) -> None:
        self.missing[self.home[p]] -= 1  # type: ignore[index]
        # The same order on all ranks, whichever bucket is full first.
        while self.left < len(self.buckets) and not self.missing[self.left]:
            self._reduce_next()

    def _reduce_next(self) -> None:
        self.keep_gradient(self.buckets[self.left], self.shards[self.left])
        self.left += 1
