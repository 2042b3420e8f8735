"""A linear layer on N ranks: cut by columns it needs no sum, cut by rows it needs one.

The paper writes Y = XA. With the columns of A divided among the ranks, each computes some columns
of Y from all of X. With the rows divided, each multiplies its own columns of X, and the products
have to be added up: XA = X₁A₁ + X₂A₂ + … A column-parallel layer ends with exactly the columns that
a row-parallel one begins with, so the two in a row need a single sum.

`nn.Linear` keeps A transposed, as [out, in]: the columns of A are the rows of its weight.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.scratch.tensor_parallel.edges import TENSOR, Edges
from dtlib.scratch.tensor_parallel.parameters import cut


class ColumnLinear(nn.Module):
    """This rank's columns of Y: [b, s, in] to [b, s, out/N].

    Parameters
    ----------
    whole
        The layer to cut, with a bias, equal on all ranks. N need not divide its outputs.
    edges
        `enter` is called on the input.
    """

    def __init__(self, whole: nn.Linear, edges: Edges = TENSOR) -> None:
        super().__init__()
        self.enter = edges.enter
        self.weight = cut(whole.weight, 0, edges.group)
        self.bias = cut(whole.bias, 0, edges.group)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.enter(x), self.weight, self.bias)


class RowLinear(nn.Module):
    """All columns of Y, from this rank's columns of X: [b, s, in/N] to [b, s, out].

    The bias is added after the sum: before it, it would count N times.

    Parameters
    ----------
    whole
        The layer to cut, with a bias, equal on all ranks.
    edges
        `leave` is called on this rank's term of the output.
    """

    def __init__(self, whole: nn.Linear, edges: Edges = TENSOR) -> None:
        super().__init__()
        self.leave = edges.leave
        self.weight = cut(whole.weight, 1, edges.group)
        self.bias = edges.shared(whole.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(F.linear(x, self.weight)) + self.bias
