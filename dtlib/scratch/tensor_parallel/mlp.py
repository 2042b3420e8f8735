"""The MLP on N ranks: first matrix by columns, second by rows, one sum in each direction.

GELU works element by element, so a rank applies it to its own columns of the first product. It may
not be applied to a term of a sum: gelu(x₁ + x₂) is not gelu(x₁) + gelu(x₂). That is why the first
matrix is cut by columns, and why nothing has to be sent between the two.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3, figure 3a.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.models import gpt
from dtlib.scratch.tensor_parallel.edges import TENSOR, Edges
from dtlib.scratch.tensor_parallel.linear import ColumnLinear, RowLinear


class MLP(nn.Module):
    """[b, s, h] to [b, s, h], by way of this rank's 4h/N columns.

    Parameters
    ----------
    whole
        The MLP to cut, equal on all ranks.
    edges
        What stands at the two edges.
    """

    def __init__(self, whole: gpt.MLP, edges: Edges = TENSOR) -> None:
        super().__init__()
        self.c_fc = ColumnLinear(whole.c_fc, edges)
        self.c_proj = RowLinear(whole.c_proj, edges)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))
