"""DiLoCo: local steps, whose mean an outer optimizer takes for a gradient.

Local SGD replaces the weights by their mean. DiLoCo keeps the weights θ₀ with which the round
began, and looks at the way that the ranks went: Δ = θ₀ - mean(θᵣ) after H steps. It gives Δ to a
second optimizer as if it were a gradient: SGD with Nesterov's momentum, which remembers the
directions of earlier rounds. In the paper, rounds of 500 steps on 8 workers then lose nothing. With
an outer rate of 1 and no momentum it is local SGD.

The inner optimizer, AdamW in the paper, keeps its state on its rank from round to round. Beside it
a rank holds θ₀ and the outer momentum: two more numbers for each parameter, in use once a round.

A. Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023,
arXiv:2311.08105, algorithm 1; the outer rate of 0.7 and momentum of 0.9 are those of section 3.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.scratch.data_parallel import average, same_start
from dtlib.scratch.data_parallel.naive import trainable
from dtlib.scratch.local_steps.rounds import Rounds


class DiLoCo:
    """Train with `loss.backward()`, `diloco.step()`, `inner.zero_grad()`.

    Parameters
    ----------
    model
        Equal in shape on all ranks; all start with the weights of the group's first rank.
    inner
        The optimizer of the local steps, over the model's parameters.
    every
        H, the steps of a round.
    lr, momentum
        Of the outer optimizer.
    group
        The ranks; None is all of them.

    Attributes
    ----------
    start
        θ₀, the weights with which the round began, the same on all ranks.
    """

    def __init__(
        self,
        model: nn.Module,
        inner: torch.optim.Optimizer,
        every: int,
        lr: float = 0.7,
        momentum: float = 0.9,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        same_start(model, group)
        self.params, self.inner, self.group = trainable(model), inner, group
        self.rounds = Rounds(every)
        self.start = [p.detach().clone() for p in self.params]
        nesterov = momentum > 0  # torch refuses Nesterov's form of no momentum
        self.outer = torch.optim.SGD(self.start, lr, momentum, nesterov=nesterov)

    @torch.no_grad()
    def step(self) -> None:
        """Let the inner optimizer take a step and, at the end of a round, the outer one as well."""
        self.inner.step()
        if self.rounds.ends():
            self.end_round()

    def end_round(self) -> None:
        """Send how far this rank went, move θ₀ by the mean of all, and go on from there."""
        ways = [start - p for start, p in zip(self.start, self.params, strict=True)]
        average(ways, self.group)
        for start, way in zip(self.start, ways, strict=True):
            start.grad = way
        self.outer.step()
        self.outer.zero_grad()  # frees Δ: it is as large as the model
        for start, p in zip(self.start, self.params, strict=True):
            p.copy_(start)

    def state_dict(self) -> dict[str, Any]:
        """θ₀, the outer optimizer, the steps: equal on all ranks, unlike weights within a round."""
        return {"start": self.start, "outer": self.outer.state_dict(), "steps": self.rounds.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        for mine, saved in zip(self.start, state["start"], strict=True):
            mine.copy_(saved)
        self.outer.load_state_dict(state["outer"])
        self.rounds.steps = state["steps"]
