"""Attention on N ranks: each computes some of the heads, from projection to output.

Heads never look at one another, so a rank projects the input to the queries, keys and values of its
own heads, and attends. The output projection is cut by rows and adds up the heads of all ranks: one
sum in each direction, as in the MLP.

GPT-2 keeps the three projections in one matrix, [query; key; value]. A rank needs its heads' rows
of each third. An Nth of the matrix, cut straight, has other rows.

Under **grouped-query attention** (J. Ainslie et al., "GQA", arXiv:2305.13245) several query heads
share a key and a value. If N divides the number of those, they are cut, too. Otherwise every rank
keeps all of them, and uses the rows that its query heads need: their gradients are `Partial`.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3, figure 3b.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.scratch.tensor_parallel.edges import TENSOR, Edges
from dtlib.scratch.tensor_parallel.linear import RowLinear
from dtlib.scratch.tensor_parallel.parameters import Group, Partial, cut


class Heads(nn.Module):
    """The projection to some heads of size d: [b, s, h] to [b, heads, s, d].

    Parameters
    ----------
    weight, bias
        All heads' rows, on all ranks.
    d
        The size of a head.
    group
        The ranks that share the heads.
    used
        The heads that this rank uses, if the projection stays whole; by default it is cut.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor, d: int, group: Group, used: range | None = None
    ) -> None:
        super().__init__()
        self.d, self.rows = d, slice(None)
        if used is None:
            self.weight: nn.Parameter = cut(weight, 0, group)
            self.bias: nn.Parameter = cut(bias, 0, group)
        else:
            self.rows = slice(used.start * d, used.stop * d)
            self.weight = Partial(weight.detach().clone())
            self.bias = Partial(bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        heads = F.linear(x, self.weight[self.rows], self.bias[self.rows])
        return heads.unflatten(-1, (-1, self.d)).transpose(1, 2)


class Attention(nn.Module):
    """Causal self-attention with a/N of the heads on each rank: [b, s, h] to [b, s, h].

    Parameters
    ----------
    c_attn
        Projection to a query heads, then `kv_heads` key heads, then as many value heads.
    c_proj
        Projection of all heads to the output.
    heads, kv_heads
        a, which N divides, and how many keys and values they share (default: each has its own).
    edges
        What stands at the two edges.
    """

    def __init__(
        self,
        c_attn: nn.Linear,
        c_proj: nn.Linear,
        heads: int,
        kv_heads: int | None = None,
        edges: Edges = TENSOR,
    ) -> None:
        super().__init__()
        n, kv = dist.get_world_size(edges.group), kv_heads or heads
        if heads % n or heads % kv:
            raise BadInput(
                f"{heads} heads must be a multiple of the {n} ranks, which divide them, and of the "
                f"{kv} keys and values, which they share."
            )
        d, shared_by, mine = c_proj.in_features // heads, heads // kv, heads // n
        rank = dist.get_rank(edges.group)
        queries = range(rank * mine, (rank + 1) * mine)
        used = range(queries[0] // shared_by, queries[-1] // shared_by + 1)
        sizes = [heads * d, kv * d, kv * d]
        parts = zip(c_attn.weight.split(sizes), c_attn.bias.split(sizes), strict=True)
        (q, q_bias), (k, k_bias), (v, v_bias) = parts
        whole = used if kv % n else None
        self.enter = edges.enter
        self.query = Heads(q, q_bias, d, edges.group)
        self.key, self.value = (
            Heads(*both, d, edges.group, whole) for both in ((k, k_bias), (v, v_bias))
        )
        self.c_proj = RowLinear(c_proj, edges)
        # which of this rank's keys each of its queries uses: its own, or one that several share
        partners = [query // shared_by - used[0] for query in queries]
        self.partner = partners if shared_by > 1 else slice(None)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)  # once, for all three projections
        k, v = (heads(x)[:, self.partner] for heads in (self.key, self.value))
        y = F.scaled_dot_product_attention(self.query(x), k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))
