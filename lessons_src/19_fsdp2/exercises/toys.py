"""Small models for the checks, and one step of them on real ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from dtlib.models.gpt import GPT, Block, GPTConfig

SHAPE = GPTConfig(vocab_size=12, context=4, layers=3, heads=2, width=4)


class Towers(nn.Module):
    """Blocks in two places, one of them not a list, and one block alone."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(SHAPE.vocab_size, SHAPE.width)
        self.stem = Block(SHAPE)
        self.left = nn.ModuleList(Block(SHAPE) for _ in range(2))
        self.right = nn.Sequential(Block(SHAPE), nn.LayerNorm(SHAPE.width), Block(SHAPE))
        self.head = nn.Linear(SHAPE.width, SHAPE.vocab_size)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.stem(self.words(tokens))
        y = x
        for block in self.left:
            y = block(y)
        logits = self.head(y + self.right(x))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def make(which: str) -> nn.Module:
    """A model, the same on every rank."""
    torch.manual_seed(19)
    return GPT(SHAPE, seed=19) if which == "gpt" else Towers()


def tokens(rank: int) -> torch.Tensor:
    """The tokens of a rank: [2, context + 1]."""
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(0, SHAPE.vocab_size, (2, SHAPE.context + 1), generator=generator)


def loss(model: nn.Module, rank: int) -> torch.Tensor:
    """The mean loss of a rank's tokens."""
    rows = tokens(rank)
    total: torch.Tensor = model(rows[:, :-1], rows[:, 1:])
    return total / rows[:, 1:].numel()


def gradients_of_one_process(which: str) -> dict[str, torch.Tensor]:
    """The gradients of the mean over all ranks' tokens."""
    model, n = make(which), dist.get_world_size()
    for rank in range(n):
        (loss(model, rank) / n).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
