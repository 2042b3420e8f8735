"""The embedding and the output layer on N ranks: each has the rows of some words.

A rank looks up the tokens that are its own and has zeros for the others, so that the sum over all
ranks is the embedding. Turned round, as the output layer, the same rows give a rank the logits of
its own words, [b, s, V/N]. Those are never put together: see `cross_entropy`.

N need not divide V, since a sum over ranks has the same shape everywhere. Megatron-LM pads V, which
also keeps the shapes of matrix products round.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.scratch.tensor_parallel.edges import TENSOR, Edges
from dtlib.scratch.tensor_parallel.parameters import cut, first_of_own


class VocabularyEmbedding(nn.Module):
    """Tokens [b, s] to vectors [b, s, h], and vectors to this rank's logits [b, s, V/N].

    Parameters
    ----------
    whole
        The embedding to cut, equal on all ranks.
    edges
        `leave` is called on this rank's term of the vectors, `enter` before the logits.

    Attributes
    ----------
    first
        The token of this rank's first row.
    """

    def __init__(self, whole: nn.Embedding, edges: Edges = TENSOR) -> None:
        super().__init__()
        self.edges, self.vocabulary = edges, whole.num_embeddings
        self.weight = cut(whole.weight, 0, edges.group)
        self.first = first_of_own(self.vocabulary, edges.group)

    def forward(self, tokens: Tensor) -> Tensor:
        self.refuse_unknown(tokens)
        rows = tokens - self.first
        theirs = (rows < 0) | (rows >= len(self.weight))
        vectors = F.embedding(rows.masked_fill(theirs, 0), self.weight)
        return self.edges.leave(vectors.masked_fill(theirs.unsqueeze(-1), 0))

    def logits(self, x: Tensor) -> Tensor:
        """This rank's columns of the logits, which a tied output layer computes."""
        return F.linear(self.edges.enter(x), self.weight)

    def refuse_unknown(self, tokens: Tensor) -> None:
        """Refuse a token that no rank owns: it would silently become a vector of zeros.

        Raises
        ------
        BadInput
            If a token is negative, or V or more.
        """
        if tokens.is_meta:
            return
        for token in (int(tokens.max()), int(tokens.min())):
            if not 0 <= token < self.vocabulary:
                raise BadInput(
                    f"rank {dist.get_rank()}: token {token} is not in a vocabulary of "
                    f"{self.vocabulary}: these are 0 to {self.vocabulary - 1}."
                )
