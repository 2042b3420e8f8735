"""Capacity: an expert has C places for the tokens of each rank, and who comes late is dropped.

With a fixed number of places the messages have a fixed size, and all ranks compute the same. First
all tokens' first choices take their places, in the order of the tokens, then all second choices: so
nobody's second choice displaces a first one. A choice that finds no place is dropped: its expert
adds nothing to that token, and the layer's input passes by in the residual connection.

D. Lepikhin et al., "GShard", arXiv:2006.16668, section 2.2 and algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Places(NamedTuple):
    """The choices that found a place, in any order.

    Attributes
    ----------
    tokens
        Whose choice it is, int64.
    choices
        Which of its k choices.
    slots
        Its place among all E·C: expert · C + place.
    """

    tokens: Tensor
    choices: Tensor
    slots: Tensor


def places(chosen: Tensor, experts: int, capacity: int) -> Places:
    """Give the choices of one rank's tokens their places.

    Parameters
    ----------
    chosen
        The experts of each token, [T, k], int64, the first choice first.
    experts, capacity
        E and C.
    """
    tokens, k = chosen.shape
    queue = chosen.t().flatten()  # all first choices, then all second ones
    ones = F.one_hot(queue, experts)
    ahead = (ones.cumsum(0) - ones).gather(1, queue.unsqueeze(1)).squeeze(1)
    kept = (ahead < capacity).nonzero().squeeze(1)
    slots = queue[kept] * capacity + ahead[kept]
    choice = torch.arange(k, device=chosen.device).repeat_interleave(tokens)
    return Places(kept % tokens, choice[kept], slots)
