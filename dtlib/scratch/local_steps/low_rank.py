"""A matrix as the product of two thin ones: [n, m] ≈ P·Qᵀ with r columns each.

r(n + m) numbers stand for n·m. Power iteration finds them without a decomposition: P = M·Q turns
any Q towards the r largest directions of M, and Q = Mᵀ·P improves it in turn. One pass suffices if
it starts with the Q of the step before (**warm start**), because gradients change slowly.

Both products are linear in M. So the mean of the ranks' P is the P of their mean M, and the factors
can be averaged on the way; no rank needs the whole mean.

T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
Distributed Optimization", NeurIPS 2019, arXiv:1905.13727, section 3 and algorithm 1.
"""

from __future__ import annotations

import torch
from torch import Tensor


def as_matrix(g: Tensor) -> Tensor:
    """A gradient as a wide matrix: n ≤ m.

    A kernel of four dimensions keeps its first as rows. A tall matrix is turned round: at rank n,
    P is then square and orthogonal, and P·Pᵀ·M is M itself.
    """
    matrix = g.reshape(g.shape[0], -1)
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T


def shaped_as(g: Tensor, matrix: Tensor) -> Tensor:
    """A wide matrix in the shape of the gradient that it stands for: `as_matrix`, backwards."""
    return (matrix if len(matrix) == len(g) else matrix.T).reshape(g.shape)


def first_guess(matrix: Tensor, rank: int, seed: int) -> Tensor:
    """A random Q, [m, r], the same on all ranks; r is at most n."""
    generator = torch.Generator().manual_seed(seed)
    sizes = matrix.shape[1], min(rank, matrix.shape[0])
    return torch.randn(sizes, generator=generator, dtype=torch.float64).to(matrix)


def orthogonal(p: Tensor) -> Tensor:
    """Columns of length 1 at right angles that span what P's columns span.

    The paper has Gram and Schmidt's method, which divides by 0 where a gradient is 0.
    """
    q: Tensor = torch.linalg.qr(p).Q
    return q
