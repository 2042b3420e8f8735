"""Ulysses: before attention, all-to-all gives every rank the whole sequence of some heads.

Heads never look at one another. So each rank gives away the other ranks' heads of its positions,
and gets the other ranks' positions of its heads: the same bytes in another cut. Attention itself is
then whatever one rank uses, and sees all positions in their order, so that each rank computes the
same. A second all-to-all turns the output back.

A rank sends (N-1)/N of what it holds, which is an Nth of the sequence: the more ranks, the less
each sends. With ring attention each rank sends nearly all keys and values of the sequence, however
many ranks there are. But Ulysses needs at least as many heads of keys and values as ranks.

S. Jacobs et al., "DeepSpeed Ulysses", arXiv:2309.14509, section 3.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.scratch.all_to_all import all_to_all
from dtlib.scratch.tensor_parallel.parameters import Group


def to_heads(x: Tensor, group: Group = None) -> Tensor:
    """From all heads of some positions, [b, a, s/N, d], to [b, a/N, s, d]."""
    parts = torch.stack(x.chunk(dist.get_world_size(group), 1))  # part j: the heads of rank j
    return torch.cat(all_to_all(parts, group).unbind(), 2)


def to_positions(x: Tensor, group: Group = None) -> Tensor:
    """The way back: [b, a/N, s, d] to [b, a, s/N, d]."""
    parts = torch.stack(x.chunk(dist.get_world_size(group), 2))  # part j: the positions of rank j
    return torch.cat(all_to_all(parts, group).unbind(), 1)


def ulysses_attention(q: Tensor, k: Tensor, v: Tensor, group: Group = None) -> Tensor:
    """Causal attention of this rank's queries to all keys of the sequence: [b, a, s/N, d].

    Parameters
    ----------
    q
        This rank's queries, [b, a, s/N, d]: rank r's are the r-th s/N positions, in order.
    k, v
        Its keys and values, [b, kv, s/N, d], where kv divides a, and N divides kv.
    group
        The N ranks that hold the sequence; None is all of them.

    Raises
    ------
    BadInput
        If N does not divide the heads.
    """
    heads, kv_heads, n = q.shape[1], k.shape[1], dist.get_world_size(group)
    if kv_heads % n or heads % kv_heads:
        raise BadInput(
            f"rank {dist.get_rank(group)}: {heads} query heads must be a multiple of the "
            f"{kv_heads} of keys and values, and those of the {n} ranks, which divide them: change "
            "the heads, or use ring attention, which does not cut them."
        )
    q, k, v = (to_heads(x, group) for x in (q, k, v))
    output = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads > kv_heads)
    return to_positions(output, group)
