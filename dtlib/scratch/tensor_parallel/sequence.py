"""Outside of f and g: norms and dropout, of the whole sequence or of a rank's own positions.

Plain tensor parallelism repeats this work on every rank, and keeps its activations N times. Norms
and dropout treat each position by itself, so under **sequence parallelism** a rank does s/N of the
positions. f's and g's twins gather and scatter them again.

- A norm's parameters have then seen s/N positions: their gradients are `Partial`.
- Dropout must drop the same elements on all ranks if they hold the same positions, and each its own
  if they do not. Here all ranks draw the mask of the whole sequence from one seed and keep their
  own part, so that N ranks drop exactly what one rank drops. Megatron-LM draws a rank's own part
  from a seed of the rank's own, which costs less.

V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
arXiv:2205.05198, section 4.2.2.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.scratch.tensor_parallel.edges import TENSOR, Edges
from dtlib.scratch.tensor_parallel.operators import POSITIONS
from dtlib.scratch.tensor_parallel.parameters import own


class Norm(nn.Module):
    """A layer norm over h: [b, s, h], or [b, s/N, h], to the same shape.

    Parameters
    ----------
    whole
        The norm, equal on all ranks.
    edges
        Decides whether its gradients are `Partial`.
    """

    def __init__(self, whole: nn.LayerNorm, edges: Edges = TENSOR) -> None:
        super().__init__()
        self.shape, self.eps = whole.normalized_shape, whole.eps
        self.weight = edges.shared(whole.weight.detach().clone())
        self.bias = edges.shared(whole.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class Dropout(nn.Module):
    """Zero a fraction of the elements, and divide the others by what is left of 1.

    Parameters
    ----------
    p
        The fraction.
    generator
        On the CPU, in the same state on all ranks.
    edges
        With `SEQUENCE` the input is [b, s/N, h], this rank's positions.
    """

    def __init__(self, p: float, generator: torch.Generator, edges: Edges = TENSOR) -> None:
        super().__init__()
        self.p, self.generator, self.edges = p, generator, edges

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.p):
            return x
        b, s, h = x.shape
        if self.edges.sequence:
            s *= dist.get_world_size(self.edges.group)
        keep = torch.rand(b, s, h, generator=self.generator) >= self.p
        if self.edges.sequence:
            keep = own(keep, POSITIONS, self.edges.group)
        return x * keep.to(x.device) / (1 - self.p)
