"""The attention of a layer whose positions are on N ranks; every rank has all of its weights."""

from __future__ import annotations

from torch import Tensor, nn

from dtlib.errors import refuse_unknown
from dtlib.scratch.context_parallel.ring import ring_attention
from dtlib.scratch.context_parallel.ulysses import ulysses_attention
from dtlib.scratch.tensor_parallel.parameters import Group
from dtlib.sim.context_parallel import KINDS


class Attention(nn.Module):
    """Causal self-attention of this rank's positions to all of them: [b, s/N, h] to [b, s/N, h].

    Parameters
    ----------
    c_attn
        Projection to a query heads, then `kv_heads` key heads, then as many value heads.
    c_proj
        Projection of all heads to the output.
    heads, kv_heads
        a, and how many keys and values they share (default: each has its own).
    kind
        "zigzag" or "ring" (ring attention with and without zig-zag), or "ulysses".
    group
        The N ranks that hold the sequence; None is all of them.

    Raises
    ------
    BadInput
        For another kind.
    """

    def __init__(
        self,
        c_attn: nn.Linear,
        c_proj: nn.Linear,
        heads: int,
        kv_heads: int | None = None,
        kind: str = "zigzag",
        group: Group = None,
    ) -> None:
        super().__init__()
        refuse_unknown("kind of context parallelism", kind, KINDS)
        self.c_attn, self.c_proj = c_attn, c_proj
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.kind, self.group = kind, group

    def forward(self, x: Tensor) -> Tensor:
        d = self.c_proj.in_features // self.heads
        sizes = [self.heads * d, self.kv_heads * d, self.kv_heads * d]
        parts = self.c_attn(x).split(sizes, -1)
        q, k, v = (part.unflatten(-1, (-1, d)).transpose(1, 2) for part in parts)
        if self.kind == "ulysses":
            y = ulysses_attention(q, k, v, self.group)
        else:
            y = ring_attention(q, k, v, self.kind == "zigzag", self.group)
        return self.c_proj(y.transpose(1, 2).flatten(2))
