"""A partition: parameters in one flat buffer, cut into N equal shards, of which rank r owns one.

Ψ elements are padded with zeros to N·⌈Ψ/N⌉, so that all shards are ⌈Ψ/N⌉ long: fewer than N
elements of padding per bucket. Shards ignore layers: the edge of one may run through a weight.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC20, section 5: the optimizer states are divided into N equal partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from dtlib.errors import BadInput


def shard_size(psi: int, ranks: int) -> int:
    """⌈Ψ/N⌉, the elements of a shard, padding included."""
    return -(-psi // ranks)


def matrices(p: nn.Parameter) -> bool:
    """Whether a parameter is decayed by default: matrices and kernels are, vectors are not."""
    return p.dim() >= 2


class Bucket:
    """Some parameters as one flat buffer of N·⌈Ψ/N⌉ elements; they become views into it.

    Parameters
    ----------
    params
        Trainable parameters of one dtype and device, at least one.
    rank, ranks
        r and N.
    decays
        Which of them are decayed. Those come first, so a shard's decayed part is one slice.

    Attributes
    ----------
    flat
        The buffer.
    own
        Where this rank's shard is in the buffer.
    decayed
        How many elements, at the start of the shard, are decayed.
    """

    def __init__(
        self,
        params: Sequence[nn.Parameter],
        rank: int,
        ranks: int,
        decays: Callable[[nn.Parameter], bool] = matrices,
    ) -> None:
        if len({p.dtype for p in params}) > 1:
            raise BadInput("a flat buffer has one dtype: cast the model to one dtype before ZeRO.")
        self.rank = rank
        self.params = sorted(params, key=lambda p: not decays(p))
        self.psi = sum(p.numel() for p in params)
        size = shard_size(self.psi, ranks)
        self.own = slice(rank * size, (rank + 1) * size)
        decayed = sum(p.numel() for p in params if decays(p))
        self.decayed = min(max(decayed - rank * size, 0), size)
        self.padding = ranks * size - self.psi
        self.flat = params[0].new_zeros(ranks * size).detach()
        parts = self.flat[: self.psi].split([p.numel() for p in self.params])
        for p, part in zip(self.params, parts, strict=True):
            part.view(p.shape).copy_(p.detach())
            p.data = part.view(p.shape)

    def take_gradient(self) -> torch.Tensor:
        """Pack the gradients as the parameters are packed, and drop them, so none is held twice.

        A parameter that this rank did not use counts as 0. One that no rank used therefore has a
        gradient of 0 instead of None: momentum and decay move it, as in DeepSpeed.

        Raises
        ------
        BadInput
            When a gradient is sparse.
        """
        parts = []
        for p in self.params:
            if p.grad is not None and p.grad.layout != torch.strided:
                raise BadInput(
                    f"rank {self.rank}: a parameter of shape {tuple(p.shape)} has a sparse "
                    "gradient, which does not fit into a flat buffer: use sparse=False."
                )
            parts.append(self._zeros(p.numel()) if p.grad is None else p.grad.reshape(-1))
            p.grad = None
        return torch.cat([*parts, self._zeros(self.padding)])

    def _zeros(self, elements: int) -> torch.Tensor:
        return torch.zeros(elements, dtype=self.flat.dtype, device=self.flat.device)
