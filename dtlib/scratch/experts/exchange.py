"""Dispatch and combine: tokens travel to the ranks of their experts, and results travel back.

A rank lays its tokens into a buffer of E·C places, expert by expert. The places of one rank's
experts lie together, so that a single all-to-all brings every token to its expert's rank. There an
expert finds C places of each rank. The way back is the same call again, and a token adds up what
its experts made of it, each times its gate.

D. Lepikhin et al., "GShard", arXiv:2006.16668, section 3.2.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from dtlib.scratch.all_to_all import all_to_all
from dtlib.scratch.experts.capacity import Places
from dtlib.scratch.tensor_parallel.parameters import Group


def dispatch(x: Tensor, at: Places, experts: int, capacity: int, group: Group = None) -> Tensor:
    """Send tokens [T, h] to their experts: [E/N, N·C, h], empty places are 0.

    Parameters
    ----------
    x
        This rank's tokens.
    at
        Their places.
    experts, capacity
        E and C, the same on all ranks.
    group
        The N ranks that have the experts; None is all of them.
    """
    n = dist.get_world_size(group)
    buffer = x.new_zeros(experts * capacity, x.shape[1]).index_copy(0, at.slots, x[at.tokens])
    parts = buffer.view(n, experts // n, capacity, -1)  # part j: for the experts of rank j
    return all_to_all(parts, group).transpose(0, 1).flatten(1, 2)


def combine(y: Tensor, at: Places, gates: Tensor, group: Group = None) -> Tensor:
    """Bring results [E/N, N·C, h] home, and add them up: [T, h], 0 for a token without a place.

    Parameters
    ----------
    y
        What this rank's experts made of the tokens of all ranks.
    at
        The places of this rank's tokens.
    gates
        Of this rank's tokens, [T, k].
    group
        As for `dispatch`.
    """
    n = dist.get_world_size(group)
    parts = y.unflatten(1, (n, -1)).transpose(0, 1)  # part j: for the tokens of rank j
    home = all_to_all(parts, group).flatten(0, 2)  # [E·C, h]
    weighted = home[at.slots] * gates[at.tokens, at.choices].unsqueeze(1).to(home.dtype)
    return home.new_zeros(len(gates), home.shape[1]).index_add(0, at.tokens, weighted)
