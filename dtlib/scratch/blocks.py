"""A model as a row of blocks, each of which maps one tensor to the next.

ZeRO stage 3 holds a block's parameters only while it runs, and a pipeline puts blocks on different
ranks: both need to know where a model can be cut. A block that shares a parameter with an earlier
one, as GPT's output layer shares its token embedding, simply holds the same `Parameter`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.models.gpt import GPT


class Embed(nn.Module):
    """GPT's first block: tokens [b, s] to vectors [b, s, h]."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.wte, self.wpe, self.drop = gpt.wte, gpt.wpe, gpt.drop

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.drop(self.wte(tokens) + self.wpe(positions))


class Logits(nn.Module):
    """GPT's last block: vectors [b, s, h] to logits [b, s, vocab_size], using the embedding."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.ln_f, self.wte = gpt.ln_f, gpt.wte

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(self.ln_f(x), self.wte.weight)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Cut a model into blocks, which hold the model's own parameters.

    Parameters
    ----------
    model
        A `Sequential`, whose children are its blocks, or a `GPT`.

    Raises
    ------
    BadInput
        For any other model.
    """
    if isinstance(model, nn.Sequential):
        return list(model)
    if isinstance(model, GPT):
        return [Embed(model), *model.h, Logits(model)]
    raise BadInput(
        f"a {type(model).__name__} has no known blocks: give a GPT, or an nn.Sequential of blocks "
        "that each map one tensor to the next."
    )


def needs(blocks: Sequence[nn.Module]) -> list[list[int]]:
    """For each block, the blocks that own the parameters it computes with, lowest number first.

    A trainable parameter is owned by the first block that holds it, so a block without tied
    parameters needs only itself, or nothing if it has no parameters.
    """
    owner: dict[nn.Parameter, int] = {}
    for k, block in enumerate(blocks):
        for p in block.parameters():
            owner.setdefault(p, k)
    return [sorted({owner[p] for p in b.parameters() if p.requires_grad}) for b in blocks]
