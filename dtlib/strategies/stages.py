"""A GPT cut into the stages of a pipeline: which parts a rank keeps, and how they compute."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.models.chunked_loss import summed_loss
from dtlib.models.gpt import GPT

Autocast = Callable[[], contextlib.AbstractContextManager[None]]


class Stage(nn.Module):
    """Layers in a row, of `total` stages as many each; the first embeds, the last normalises.

    Tokens [b, s] come into the first stage; vectors [b, s, h] pass between stages and leave the
    last one, whose `Head` makes logits of them.
    """

    def __init__(self, gpt: GPT, number: int, total: int, autocast: Autocast) -> None:
        super().__init__()
        self.autocast, self.is_first = autocast, number == 0
        self.layers = nn.ModuleList(gpt.h[k] for k in layers_of(number, total, len(gpt.h)))
        if self.is_first:
            self.wte, self.wpe, self.drop = gpt.wte, gpt.wpe, gpt.drop
        if number == total - 1:
            # the head's weight too, so that the schedule finds all that this stage differentiates
            self.ln_f, self.head = gpt.ln_f, gpt.wte

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute under the run's precision: a schedule calls this, and backward is outside."""
        with self.autocast():
            if self.is_first:
                x = self.drop(self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device)))
            for layer in self.layers:
                x = layer(x)
            return self.ln_f(x) if hasattr(self, "ln_f") else x


class Head(nn.Module):
    """What a task calls on the rank of the last stage: vectors [b, s, h] to logits or a loss."""

    def __init__(self, wte: nn.Embedding) -> None:
        super().__init__()
        self.wte = wte

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """As `GPT.forward` does with its last vectors."""
        if labels is not None:
            return summed_loss(x.flatten(0, 1), self.wte.weight, labels.flatten())
        return F.linear(x, self.wte.weight)


def layers_of(number: int, total: int, layers: int) -> range:
    """Return the layers of a stage."""
    each = layers // total
    return range(number * each, (number + 1) * each)


def owner(name: str, total: int, layers: int) -> int:
    """Return the stage that answers for a parameter: the token embedding's is the first one."""
    if name.startswith("h."):
        return int(name.split(".")[1]) // (layers // total)
    return total - 1 if name.startswith("ln_f") else 0


def keep_only(gpt: GPT, stages: Sequence[int], total: int) -> None:
    """Drop what other ranks compute, in place; the names of what stays do not change."""
    kept = {layer for s in stages for layer in layers_of(s, total, len(gpt.h))}
    for layer in range(len(gpt.h)):
        if layer not in kept:
            gpt.h[layer] = nn.Identity()
    first, last = 0 in stages, total - 1 in stages
    for name, stays in (("wte", first or last), ("wpe", first), ("ln_f", last)):
        if not stays:
            setattr(gpt, name, nn.Identity())
