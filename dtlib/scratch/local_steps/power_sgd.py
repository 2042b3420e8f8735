"""PowerSGD: in every step, but with low-rank gradients, and without forgetting what is left out.

Two small messages replace the all-reduce of all gradients: the left factors, with whatever is no
matrix, and the right ones. All ranks end with the same product P·Qᵀ instead of the mean gradient.

**Error feedback**: what a rank's gradient has lost in this step it adds to its next one. So nothing
is lost for good: what all steps applied and the errors that are left, together, are the sum of all
gradients. Without it SGD with compressed gradients need not converge.

A rank holds an error for each number of its matrices (as much as the gradients) and the thin Qs.

T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
Distributed Optimization", NeurIPS 2019, arXiv:1905.13727, algorithms 1 and 2.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput
from dtlib.scratch.data_parallel import average
from dtlib.scratch.data_parallel.naive import gradients_of, trainable
from dtlib.scratch.local_steps.low_rank import as_matrix, first_guess, orthogonal, shaped_as


class PowerSGD:
    """Call `reduce` after the last backward of a step, in place of an all-reduce of the gradients.

    Parameters
    ----------
    model
        With the same weights on all ranks (see `same_start`).
    rank
        r, the columns of a factor; a matrix has at most as many as its shorter side.
    group
        The ranks; None is all of them.
    seed
        Of the first Qs, the same on all ranks.

    Attributes
    ----------
    errors
        For each matrix, what this rank has not yet sent of its gradients.

    Raises
    ------
    BadInput
        When r is below 1.
    """

    def __init__(
        self, model: nn.Module, rank: int, group: dist.ProcessGroup | None = None, seed: int = 0
    ) -> None:
        if rank < 1:
            raise BadInput(f"a factor of {rank} columns carries nothing: give rank= at least 1.")
        self.params, self.group = trainable(model), group
        matrices = [as_matrix(p.detach()) for p in self.params if p.dim() >= 2]
        self.errors = [torch.zeros_like(m) for m in matrices]
        self.right = [first_guess(m, rank, seed + i) for i, m in enumerate(matrices)]

    @torch.no_grad()
    def reduce(self) -> None:
        """Replace every matrix's gradient by P·Qᵀ, and every other one by its mean."""
        gradients = gradients_of(self.params)
        compressed = [g for g in gradients if g.dim() >= 2]
        others = [g for g in gradients if g.dim() < 2]
        wanted = [as_matrix(g) + e for g, e in zip(compressed, self.errors, strict=True)]

        left = [m @ q for m, q in zip(wanted, self.right, strict=True)]
        average([*left, *others], self.group)
        left = [orthogonal(p) for p in left]
        self.right = [m.T @ p for m, p in zip(wanted, left, strict=True)]
        self.errors = [m - p @ q.T for m, p, q in zip(wanted, left, self.right, strict=True)]
        average(self.right, self.group)
        for g, p, q in zip(compressed, left, self.right, strict=True):
            g.copy_(shaped_as(g, p @ q.T))

    def state_dict(self) -> dict[str, Any]:
        """The errors, which are this rank's own, and the Qs, which are the same on all ranks."""
        return {"errors": self.errors, "right": self.right}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self.errors, self.right = list(state["errors"]), list(state["right"])
