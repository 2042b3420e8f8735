"""ZeRO stage 3, P_os+g+p: a worker that carries out the schedule of `schedule.py`, block by block.

Between its uses a block's flat buffer has no memory: autograd still holds the buffer's storage, so
the storage itself is emptied, and filled again before backward needs it.

Bytes held permanently, in fp32: 4Ψ/N of parameters, 4Ψ/N of gradients, 8Ψ/N of AdamW's state; in
mixed precision (2 + 2 + 12)Ψ/N. All of these include their padding.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC20, section 5.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn

from dtlib.scratch.blocks import blocks_of, needs
from dtlib.scratch.zero import schedule as s
from dtlib.scratch.zero.optimizers import Rule
from dtlib.scratch.zero.partition import Bucket, matrices
from dtlib.scratch.zero.step import Zero


class ZeroStage3(Zero):
    """Shard optimizer state, gradients and parameters.

    Parameters
    ----------
    model
        A model that `blocks_of` can cut, equal in shape on all ranks; all start with rank 0's
        weights. Outside forward and backward its trainable parameters have no memory: see `whole`.
    rule
        `AdamW` or `SGD` of this package.
    decays
        Which parameters are decayed; by default those of two dimensions or more.
    """

    def __init__(
        self, model: nn.Module, rule: Rule, decays: Callable[[nn.Parameter], bool] = matrices
    ) -> None:
        self.blocks = blocks_of(model)
        self.needs = needs(self.blocks)
        self.owners = sorted({owner for owners in self.needs for owner in owners})
        super().__init__(model, rule, decays)
        pairs = zip(self.buckets, self.shards, strict=True)
        self.of = dict(zip(self.owners, pairs, strict=True))
        for owner in self.owners:
            self._free(owner)

    def partition(self, model: nn.Module) -> list[list[nn.Parameter]]:
        taken: set[nn.Parameter] = set()
        groups = []
        for owner in self.owners:
            group = [p for p in self.blocks[owner].parameters() if p.requires_grad]
            groups.append([p for p in group if p not in taken])
            taken.update(group)
        return groups

    def parameters_of(self, bucket: Bucket) -> torch.Tensor:
        return bucket.flat[bucket.own].clone()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Run the model forward, and keep every block's input and output for backward.

        Under `torch.no_grad()`, as in an evaluation, nothing is kept.
        """
        self.passes: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.x = x
        self.carry_out(s.forward_schedule(self.needs))
        return self._cut_off()

    def backward(self, loss: torch.Tensor) -> None:
        """Run the loss's own backward, which ends at the model's output, and then the model's."""
        loss.backward()
        self.gradient = self.x.grad
        self.carry_out(s.backward_schedule(self.needs))

    def carry_out(self, instructions: Iterable[s.Instruction]) -> None:
        """Carry out the instructions of a schedule."""
        for instruction in instructions:
            match instruction:
                case s.AllGather(block):
                    self._all_gather(block)
                case s.Forward(block):
                    self._forward(block)
                case s.Free(block):
                    self._free(block)
                case s.Backward(block):
                    self._backward()
                case s.ReduceScatter(block):
                    self.keep_gradient(*self.of[block])
                case s.OptimizerStep():
                    self.step()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        self.carry_out(map(s.AllGather, self.owners))
        try:
            yield
        finally:
            self.carry_out(map(s.Free, self.owners))

    def held(self) -> dict[str, list[torch.Tensor]]:
        flats = [b.flat for b in self.buckets if b.flat.untyped_storage().nbytes()]
        return {**super().held(), "parameters": [x.parameters for x in self.shards] + flats}

    @torch.no_grad()
    def _all_gather(self, owner: int) -> None:
        bucket, shard = self.of[owner]
        bucket.flat.untyped_storage().resize_(bucket.flat.nbytes)
        bucket.flat[bucket.own] = shard.parameters
        self.wire.all_gather(bucket.flat)

    def _free(self, owner: int) -> None:
        self.of[owner][0].flat.untyped_storage().resize_(0)

    def _cut_off(self) -> torch.Tensor:
        """Return the last output as the start of a graph of its own."""
        self.x = self.x.detach()
        return self.x.requires_grad_(torch.is_grad_enabled() and self.x.is_floating_point())

    def _forward(self, k: int) -> None:
        x = self._cut_off()
        self.x = self.blocks[k](x)
        if torch.is_grad_enabled():
            self.passes.append((x, self.x))

    def _backward(self) -> None:
        x, y = self.passes.pop()
        if y.requires_grad:
            torch.autograd.backward(y, self.gradient)
        self.gradient = x.grad
