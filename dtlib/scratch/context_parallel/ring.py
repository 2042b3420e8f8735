"""Ring attention: queries stay, keys and values travel, and their gradients travel with them.

Every rank holds some positions of a sequence that would not fit on one. In step t a rank computes
with the keys and values of the rank t places before it, and passes them on at the same time; after
N steps its queries have seen all. So a rank holds three blocks of keys and values at most: its own,
the one that it computes with, and the one that is coming.

Backward goes round once more. A block's gradient is the sum of what all ranks compute with it, so
it travels along with the block, each rank adds its part, and a last step brings it home.

H. Liu, M. Zaharia, P. Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
Context", arXiv:2310.01889, algorithm 1.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dtlib.errors import BadInput
from dtlib.scratch.context_parallel.online_softmax import OnlineSoftmax, block_gradients, scores_of
from dtlib.scratch.context_parallel.travel import begin, round_the_ring
from dtlib.scratch.tensor_parallel.parameters import Group
from dtlib.sim.context_parallel import chunks, computed


class _Blocks:
    """Which of a rank's blocks meet: the chunks of its queries and of the keys that it holds."""

    def __init__(self, zigzag: bool, group: Group) -> None:
        self.rank, self.n, self.zigzag = dist.get_rank(group), dist.get_world_size(group), zigzag
        self.own = chunks(self.rank, self.n, zigzag)

    def cut(self, x: Tensor) -> tuple[Tensor, ...]:
        """Views of the chunks of a tensor [… , s/N, d]."""
        return x.chunk(len(self.own), -2)

    def met(self, holder: int) -> list[tuple[int, int, bool]]:
        """For each pair to compute: the chunk here, the one on `holder`, whether they are one."""
        theirs = chunks(holder, self.n, self.zigzag)
        pairs = computed(self.rank, holder, self.n, self.zigzag)
        return [(self.own.index(q), theirs.index(k), q == k) for q, k in pairs]


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, kv: Tensor, zigzag: bool, group: Group) -> Tensor:
        blocks = _Blocks(zigzag, group)
        queries = blocks.cut(q)
        rows = [OnlineSoftmax(x) for x in queries]
        for holder, held in round_the_ring(kv, group):
            keys, values = (blocks.cut(x) for x in held)
            for i, j, diagonal in blocks.met(holder):
                rows[i].add(scores_of(queries[i], keys[j], diagonal), values[j])
        output, log_sum = (torch.cat(x, -2) for x in zip(*(r.finish() for r in rows), strict=True))
        # heads behind positions in memory, as the output projection reads them: it needs no copy
        output = output.to(q.dtype).movedim(-2, 1).contiguous().movedim(1, -2)
        ctx.save_for_backward(q, kv, output, log_sum)
        ctx.blocks, ctx.group = blocks, group
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        q, kv, output, log_sum = ctx.saved_tensors
        blocks: _Blocks = ctx.blocks
        rows = list(zip(*map(blocks.cut, (q, log_sum, output, gradient)), strict=True))
        of_q = torch.zeros_like(q, dtype=log_sum.dtype)
        travelling = None  # the gradient of the block that comes next
        for holder, held in round_the_ring(kv, ctx.group):
            of_held = torch.zeros_like(held, dtype=log_sum.dtype)
            for i, j, diagonal in blocks.met(holder):
                query, *of_query = rows[i]
                mine, theirs = block_gradients(query, blocks.cut(held)[j], diagonal, *of_query)
                blocks.cut(of_q)[i].add_(mine)
                blocks.cut(of_held)[j].add_(theirs)
            if travelling is not None:
                of_held += travelling.wait()
            travelling = begin(of_held, ctx.group)
        assert travelling is not None
        return of_q.to(q.dtype), travelling.wait().to(kv.dtype), None, None


def ring_attention(
    q: Tensor, k: Tensor, v: Tensor, zigzag: bool = True, group: Group = None
) -> Tensor:
    """Causal attention of this rank's queries to all keys of the sequence: [b, a, s/N, d].

    Parameters
    ----------
    q
        This rank's queries, [b, a, s/N, d], at the positions `own_positions(s, zigzag, group)`.
    k, v
        Its keys and values, [b, kv, s/N, d], where kv divides a: query head i uses head
        i // (a/kv) of them (grouped-query attention).
    zigzag
        How the positions are laid out.
    group
        The N ranks that hold the sequence; None is all of them.

    Returns
    -------
    Tensor
        In the dtype of `q`. Sums are in at least fp32, in which gradients travel, too. Kept for
        backward are q, k, v, the output and one number per query: an Nth of what one rank keeps.

    Raises
    ------
    BadInput
        If the heads do not fit, or a rank has an odd number of positions under zig-zag.
    """
    heads, kv_heads, positions = q.shape[1], k.shape[1], q.shape[2]
    if heads % kv_heads:
        raise BadInput(
            f"rank {dist.get_rank(group)}: {heads} query heads cannot share {kv_heads} keys and "
            f"values equally: take a multiple of {kv_heads}."
        )
    if zigzag and positions % 2:
        raise BadInput(
            f"rank {dist.get_rank(group)}: {positions} positions are not two equal chunks, which "
            "zig-zag needs: take the positions of own_positions."
        )
    kv = torch.stack([k, v]).unsqueeze(3)  # one message for both
    # a copy, since what is kept for backward would keep the memory of k and v, too, if q is a view
    shared = q.contiguous().unflatten(1, (kv_heads, heads // kv_heads))
    output: Tensor = _RingAttention.apply(shared, kv, zigzag, group)
    return output.flatten(1, 2)
