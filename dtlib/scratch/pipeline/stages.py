"""A row of blocks cut into stages, and the shapes of what passes between them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence

import torch
from torch import nn

from dtlib.errors import BadInput, counted


def cut(blocks: Sequence[nn.Module], stages: int) -> list[nn.Module]:
    """Cut a row of blocks into stages as equal as possible, the first ones longer by one.

    Raises
    ------
    BadInput
        When there are fewer blocks than stages.
    """
    if len(blocks) < stages:
        raise BadInput(
            f"{counted(len(blocks), 'block')} cannot be cut into {counted(stages, 'stage')}: give "
            "a deeper model, or take fewer ranks or stages on each."
        )
    short, longer = divmod(len(blocks), stages)
    ends = [k * short + min(k, longer) for k in range(stages + 1)]
    return [nn.Sequential(*blocks[a:b]) for a, b in itertools.pairwise(ends)]


def shared_weights(stages: Sequence[nn.Module], ranks: int) -> list[tuple[nn.Parameter, list[int]]]:
    """Return the trainable parameters that stages of several ranks use, and these ranks.

    Each of them computes a part of the gradient. GPT's token embedding is in the first stage and
    in the last.
    """
    holders: dict[nn.Parameter, set[int]] = {}
    for s, stage in enumerate(stages):
        for p in stage.parameters():
            holders.setdefault(p, set()).add(s % ranks)
    return [(p, sorted(on)) for p, on in holders.items() if p.requires_grad and len(on) > 1]


def refuse_batch(x: torch.Tensor, micro_batches: int) -> None:
    """Refuse a batch that no worker can cut, or compute with; raises `BadInput`."""
    if len(x) < micro_batches:
        raise BadInput(
            f"a batch of {counted(len(x), 'sample')} cannot be cut into {micro_batches} "
            "micro-batches: give at least one sample for each."
        )
    refuse_autocast(x)


def refuse_autocast(x: torch.Tensor) -> None:
    """Refuse to compute under autocast on the device of `x`.

    Its dtypes are not known beforehand, so no rank could tell what it will receive.

    Raises
    ------
    BadInput
        Under `torch.autocast`.
    """
    if torch.is_autocast_enabled(x.device.type):
        raise BadInput(
            "a pipeline by hand computes in one dtype and does not run under torch.autocast: leave "
            "it, or convert model and inputs, for example with .bfloat16()."
        )


class Shapes:
    """What each stage receives, computed without any data: every rank knows what to expect.

    So a message carries the numbers alone. Copies of the stages on torch's `meta` device, which
    has shapes and no memory, compute it.
    """

    def __init__(self, stages: Sequence[nn.Module]) -> None:
        self.ghosts = [_ghost(stage) for stage in stages]
        self.known: dict[torch.Size, list[torch.Tensor]] = {}

    @torch.no_grad()
    def inputs(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the input of every stage, on `meta`, if the first one's is like `x`."""
        if x.shape not in self.known:
            found = [x.to("meta")]
            for ghost in self.ghosts[:-1]:
                found.append(ghost(found[-1]))
            self.known[x.shape] = found
        return self.known[x.shape]


def _ghost(stage: nn.Module) -> nn.Module:
    memo = {id(x): x.detach().to("meta") for x in (*stage.parameters(), *stage.buffers())}
    return copy.deepcopy(stage, memo)
