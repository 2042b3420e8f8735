"""Attention to keys that come block by block: softmax without ever seeing a whole row.

Softmax divides exp(x - m) by the sum of its row, where m is the row's largest score x. While blocks
are still to come, neither m nor the sum is known. **Online softmax** keeps what it has so far: m,
the sum of exp(x - m), and the sum of the values weighted with exp(x - m). If a block brings a
larger score m', both sums are multiplied by exp(m - m'): they are then what m' would have given.

M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867; T. Dao
et al., "FlashAttention", arXiv:2205.14135, section 3.1, with its backward in appendix B.4.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dtlib.scratch.zero.clip import wide


def scores_of(q: Tensor, k: Tensor, diagonal: bool) -> Tensor:
    """Scores of queries [… , s, d] and keys [… , t, d] in at least fp32: [… , s, t].

    Parameters
    ----------
    diagonal
        Whether queries and keys are at the same positions: each then sees only the keys up to its
        own. Otherwise all keys come before all queries.
    """
    q, k = (x.to(wide(x.dtype)) for x in (q, k))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if diagonal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores


class OnlineSoftmax:
    """Softmax of scores times values, of some queries, from block to block.

    Parameters
    ----------
    q
        The queries, [… , s, d].

    Attributes
    ----------
    largest, total
        The largest score so far, and the sum of exp(score - largest): [… , s, 1].
    numerator
        The values, weighted with exp(score - largest): [… , s, d].
    """

    def __init__(self, q: Tensor) -> None:
        self.numerator = torch.zeros_like(q, dtype=wide(q.dtype))
        self.total = torch.zeros_like(self.numerator[..., :1])
        self.largest = torch.full_like(self.total, -math.inf)

    def add(self, scores: Tensor, v: Tensor) -> None:
        """Take in scores [… , s, t] of a block, a finite one in each row, and values [… , t, d]."""
        largest = torch.maximum(self.largest, scores.amax(-1, keepdim=True))
        rescale = (self.largest - largest).exp()
        weights = (scores - largest).exp()
        self.total = self.total * rescale + weights.sum(-1, keepdim=True)
        self.numerator = self.numerator * rescale + weights @ v.to(weights.dtype)
        self.largest = largest

    def finish(self) -> tuple[Tensor, Tensor]:
        """The output [… , s, d], and log Σ exp(score) [… , s, 1], from which backward finds all."""
        return self.numerator / self.total, self.largest + self.total.log()


def block_gradients(
    q: Tensor, kv: Tensor, diagonal: bool, log_sum: Tensor, output: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of a block of queries, and of a block of keys and values, by each other.

    The probabilities are computed again, as exp(score - log_sum): forward kept none of them. With
    P the probabilities, O the output, and dX the gradient of X: dV = Pᵀ dO, dP = dO Vᵀ, and the
    gradient of a row of scores is P (dP - Σ dO·O), by the derivative of softmax.

    Parameters
    ----------
    q, output, gradient
        Queries, output and its gradient, [b, kv, a/kv, s, d].
    kv
        Keys and values, [2, b, kv, 1, t, d]: a/kv query heads share each of them.
    diagonal
        As for `scores_of`.
    log_sum
        From `OnlineSoftmax.finish`.
    """
    k, v = kv
    probabilities = (scores_of(q, k, diagonal) - log_sum).exp()
    q, k, v, gradient = (x.to(probabilities.dtype) for x in (q, k, v, gradient))
    along = (gradient * output).sum(-1, keepdim=True)
    of_scores = probabilities * (gradient @ v.transpose(-2, -1) - along) / math.sqrt(q.shape[-1])
    of_k = (of_scores.transpose(-2, -1) @ q).sum(2, keepdim=True)
    of_v = (probabilities.transpose(-2, -1) @ gradient).sum(2, keepdim=True)
    return of_scores @ k, torch.stack([of_k, of_v])
