"""What the three stages share: each rank updates its own shards, with one norm over all of them.

Train with it as with DeepSpeed's engine: `zero(x)`, then `zero.backward(loss)` for every
micro-batch, then `zero.step()`. With k micro-batches, divide each loss by k. Gradients are averaged
over ranks, as in DDP.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC20, sections 5.1 to 5.3 and 7.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import DtlibError
from dtlib.scratch.data_parallel import same_start
from dtlib.scratch.zero.clip import clip_factor, global_norm, wide
from dtlib.scratch.zero.optimizers import Rule, State
from dtlib.scratch.zero.partition import Bucket, matrices
from dtlib.scratch.zero.wire import Wire


@dataclass
class Shard:
    """The part of a bucket that one rank holds permanently.

    `parameters` is in the model's dtype; `master` is the fp32 copy that the optimizer updates or,
    in fp32, the parameters themselves. `gradient` is the mean over all ranks, if it is kept.
    """

    parameters: torch.Tensor
    master: torch.Tensor
    state: State
    gradient: torch.Tensor | None = None


class Zero:
    """The base of the stages, which decide how gradients are reduced and parameters are shared."""

    def __init__(
        self, model: nn.Module, rule: Rule, decays: Callable[[nn.Parameter], bool] = matrices
    ) -> None:
        same_start(model)
        self.model, self.rule, self.decays, self.wire = model, rule, decays, Wire()
        self.rank, self.ranks, self.steps = dist.get_rank(), dist.get_world_size(), 0
        self.buckets = [
            Bucket(params, self.rank, self.ranks, decays) for params in self.partition(model)
        ]
        self.shards = [self._shard(self.parameters_of(bucket)) for bucket in self.buckets]

    def partition(self, model: nn.Module) -> list[list[nn.Parameter]]:
        """Which parameters share a bucket."""
        raise NotImplementedError

    def parameters_of(self, bucket: Bucket) -> torch.Tensor:
        """This rank's shard of a bucket's parameters: a view, if nothing is freed."""
        return bucket.flat[bucket.own]

    def reduced(self, bucket: Bucket, shard: Shard) -> torch.Tensor:
        """This rank's shard of a bucket's mean gradient, as kept."""
        if shard.gradient is None:
            raise DtlibError(
                f"rank {self.rank}: step() found no gradient: call zero.backward(loss) for every "
                "micro-batch before it, instead of loss.backward()."
            )
        return shard.gradient

    def share(self) -> None:
        """Send the parameters that this rank has updated to the other ranks."""

    def __call__(self, *inputs: Any) -> Any:
        """Run the model forward."""
        return self.model(*inputs)

    def backward(self, loss: torch.Tensor) -> None:
        """Add a micro-batch's gradients to the existing ones."""
        loss.backward()

    @torch.no_grad()
    def keep_gradient(self, bucket: Bucket, shard: Shard) -> None:
        """Reduce a bucket's gradients, drop them, and add this rank's shard to the one it kept."""
        own = self.wire.reduce_scatter(bucket.take_gradient())
        if shard.gradient is None:
            shard.gradient = own / self.ranks  # a tensor of its own: the bucket's is free again
        else:
            shard.gradient.add_(own, alpha=1 / self.ranks)

    @torch.no_grad()
    def step(self, clip: float | None = None) -> torch.Tensor:
        """Take an optimizer step with the gradients since the last step, and drop them.

        Parameters
        ----------
        clip
            The largest norm that the whole gradient may have; a larger one is scaled down to it.

        Returns
        -------
        torch.Tensor
            The norm of the whole mean gradient before clipping, the same bits on all ranks.
        """
        self.steps += 1
        pairs = list(zip(self.buckets, self.shards, strict=True))
        gradients = [self.reduced(bucket, shard) for bucket, shard in pairs]
        norm = global_norm(gradients, self.wire)
        for (bucket, shard), gradient in zip(pairs, gradients, strict=True):
            g = gradient.to(shard.master.dtype)
            if clip is not None:
                g.mul_(clip_factor(norm, clip))
            self.rule.update(shard.master, g, shard.state, self.steps, bucket.decayed)
            if shard.master is not shard.parameters:
                shard.parameters.copy_(shard.master)  # rounds to the model's dtype
            shard.gradient = None
        self.share()
        return norm

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Make all parameters whole inside the block, for instance to write a checkpoint."""
        yield

    def held(self) -> dict[str, list[torch.Tensor]]:
        """The tensors that this rank holds now, by kind."""
        copies = [shard.master for shard in self.shards if shard.master is not shard.parameters]
        return {
            "parameters": [bucket.flat for bucket in self.buckets],
            "gradients": [s.gradient for s in self.shards if s.gradient is not None],
            "optimizer": [tensor for shard in self.shards for tensor in shard.state.values()],
            "fp32_copy": copies,
        }

    def _shard(self, parameters: torch.Tensor) -> Shard:
        master = parameters.to(wide(parameters.dtype))  # itself, in fp32
        return Shard(parameters, master, self.rule.state(master))
