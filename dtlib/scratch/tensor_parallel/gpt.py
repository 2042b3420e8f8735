"""A GPT on N ranks: every rank runs all layers, and holds one Nth of each large matrix.

A block talks four times per step: g after attention and after the MLP in forward, f before each of
them in backward. Embedding, output layer and loss are cut by the vocabulary. All ranks see the same
tokens and end with the same loss.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053; V. Korthikanti et al., arXiv:2205.05198.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from dtlib.errors import BadInput
from dtlib.models import gpt
from dtlib.scratch.tensor_parallel.attention import Attention
from dtlib.scratch.tensor_parallel.cross_entropy import vocabulary_cross_entropy
from dtlib.scratch.tensor_parallel.edges import TENSOR, Edges
from dtlib.scratch.tensor_parallel.embedding import VocabularyEmbedding
from dtlib.scratch.tensor_parallel.mlp import MLP
from dtlib.scratch.tensor_parallel.operators import POSITIONS
from dtlib.scratch.tensor_parallel.parameters import Group, own
from dtlib.scratch.tensor_parallel.sequence import Dropout, Norm


class Block(nn.Module):
    """Attention and MLP, each behind a norm and around a residual connection.

    Parameters
    ----------
    whole
        The block to cut, equal on all ranks.
    dropout
        What follows attention and the MLP.
    edges
        With `SEQUENCE`, input and output are this rank's positions, [b, s/N, h].
    """

    def __init__(self, whole: gpt.Block, dropout: Dropout, edges: Edges = TENSOR) -> None:
        super().__init__()
        attn = whole.attn
        self.ln_1, self.ln_2 = Norm(whole.ln_1, edges), Norm(whole.ln_2, edges)
        self.attn = Attention(attn.c_attn, attn.c_proj, attn.heads, edges=edges)
        self.mlp = MLP(whole.mlp, edges)
        self.drop = dropout

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.mlp(self.ln_2(x)))


class Embed(nn.Module):
    """The first block: tokens [b, s] to vectors, as they are outside of f and g."""

    def __init__(self, model: TensorParallelGPT) -> None:
        super().__init__()
        self.wte, self.wpe, self.drop, self.edges = model.wte, model.wpe, model.drop, model.edges

    def forward(self, tokens: Tensor) -> Tensor:
        x, positions = self.wte(tokens), self.wpe[: tokens.shape[1]].unsqueeze(0)
        if self.edges.sequence:
            positions = own(positions, POSITIONS, self.edges.group)
        return cast(Tensor, self.drop(x + positions))


class Logits(nn.Module):
    """The last block: vectors to this rank's logits, [b, s, V/N], with the embedding's rows."""

    def __init__(self, model: TensorParallelGPT) -> None:
        super().__init__()
        self.ln_f, self.wte = model.ln_f, model.wte

    def forward(self, x: Tensor) -> Tensor:
        return self.wte.logits(self.ln_f(x))


class TensorParallelGPT(nn.Module):
    """Cut a GPT for all ranks.

    Train with it as with a model on one rank, but call `sum_partial` after backward, and
    `clip_global_norm` for `clip_grad_norm_`.

    Parameters
    ----------
    whole
        The model, built from the same seed on all ranks, without dropout of its own.
    edges
        `TENSOR`, or `SEQUENCE` for sequence parallelism.
    dropout, seed
        Dropout after the embedding, attention and MLP, and the seed of its masks, the same on all
        ranks. Attention's probabilities are not dropped.
    group
        The N ranks that share the model, by default those of `edges`; pass it to `sum_partial` and
        `clip_global_norm`, too.

    Raises
    ------
    BadInput
        If the model has dropout, or N does not divide its heads.
    """

    def __init__(
        self, whole: gpt.GPT, edges: Edges = TENSOR, dropout: float = 0.0, seed: int = 0,
        group: Group = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if whole.config.dropout:
            raise BadInput(
                f"this GPT drops {whole.config.dropout:g} of its attention's probabilities, too, "
                "which is not cut by heads here: build it with dropout 0, and pass dropout= here."
            )
        edges = edges.within(group) if group else edges
        self.context, self.edges = whole.config.context, edges
        self.drop = Dropout(dropout, torch.Generator().manual_seed(seed), edges)
        self.wte = VocabularyEmbedding(whole.wte, edges)
        self.wpe = edges.shared(whole.wpe.weight.detach().clone())
        self.h = nn.ModuleList(Block(cast(gpt.Block, one), self.drop, edges) for one in whole.h)
        self.ln_f = Norm(whole.ln_f, edges)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """The summed loss of tokens [b, s], in nats; equal on all ranks.

        A position with a negative label counts 0.

        Raises
        ------
        BadInput
            If the tokens are too many or unknown, or N does not divide s (sequence parallelism).
        """
        if tokens.shape[1] > self.context:
            raise BadInput(
                f"a sequence of {tokens.shape[1]} tokens exceeds the context of {self.context}."
            )
        self.wte.refuse_unknown(labels.clamp(min=0))
        logits = tokens
        for block in self.blocks():
            logits = block(logits)
        return vocabulary_cross_entropy(logits, labels, self.wte.first, self.edges.group).sum()

    def blocks(self) -> list[nn.Module]:
        """The model as a row of blocks, for the stages of a pipeline; the last one gives logits."""
        return [Embed(self), *self.h, Logits(self)]
