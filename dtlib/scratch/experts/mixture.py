"""A mixture of experts: many MLPs on N ranks, of which each token passes through k.

So a model has E times the weights of an MLP, for k times its work. A rank has its own tokens, as in
data parallel, and E/N of the experts. Tokens of all ranks meet in an expert, so that its gradient
is complete on its rank and must not be summed; the router's, and that of all else, is summed.

D. Lepikhin et al., "GShard", arXiv:2006.16668; W. Fedus et al., "Switch Transformers",
arXiv:2101.03961.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dtlib.errors import BadInput, counted
from dtlib.scratch.experts.balance import balance_loss, load_of
from dtlib.scratch.experts.capacity import places
from dtlib.scratch.experts.exchange import combine, dispatch
from dtlib.scratch.experts.router import Router
from dtlib.scratch.tensor_parallel.parameters import Cut, Group
from dtlib.sim.experts import capacity


@dataclass(frozen=True)
class Account:
    """What became of this rank's tokens in a forward.

    Attributes
    ----------
    balance
        The load-balancing loss, 0-d, with a gradient.
    load
        How many tokens have chosen each expert, [E].
    dropped
        Choices that found no place.
    bypassed
        Tokens of which all choices were dropped: for them the layer's output is 0.
    """

    balance: Tensor
    load: Tensor
    dropped: int
    bypassed: int


class Mixture(nn.Module):
    """Experts on the ranks of a group, in place of an MLP: [b, s, h] to [b, s, h].

    The output is what a residual connection adds to the input: 0 for a token that no expert took.

    Parameters
    ----------
    scores
        The router's layer, from h to E, without a bias and equal on all ranks.
    experts
        All E experts, equal on all ranks, each from [T, h] to [T, h]. A rank keeps copies of its
        own E/N, with parameters that are `Cut`.
    k
        How many experts a token goes to.
    factor
        The capacity factor: see `dtlib.sim.experts.capacity`.
    group
        The N ranks; None is all of them. All of them have the same number of tokens.

    Attributes
    ----------
    account
        Of the last forward. Its loss belongs to a graph, so copy a model before it, not after.

    Raises
    ------
    BadInput
        If N does not divide E, or the router has scores for another number of experts, or no expert
        would take a token.
    """

    account: Account

    def __init__(
        self,
        scores: nn.Linear,
        experts: Sequence[nn.Module],
        k: int = 1,
        factor: float = 1.25,
        group: Group = None,
    ) -> None:
        super().__init__()
        rank, n = dist.get_rank(group), dist.get_world_size(group)
        if len(experts) % n or len(experts) != scores.out_features:
            raise BadInput(
                f"{counted(len(experts), 'expert')} must be a multiple of the {n} ranks, and as "
                f"many as the router's scores, {scores.out_features}."
            )
        if not factor > 0:
            raise BadInput(
                f"with a capacity factor of {factor:g} no expert takes a token: give one above 0."
            )
        self.router = Router(copy.deepcopy(scores), k)
        each = len(experts) // n
        own = (copy.deepcopy(expert) for expert in experts[rank * each : (rank + 1) * each])
        self.experts = nn.ModuleList(own)
        for part in self.experts.modules():
            for name, p in list(part.named_parameters(recurse=False)):
                setattr(part, name, Cut(p.detach(), p.requires_grad))
        self.factor, self.group, self.count = factor, group, len(experts)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        routing = self.router(tokens)
        room = capacity(len(tokens), self.count, self.router.k, self.factor)
        at = places(routing.experts, self.count, room)
        arrived = dispatch(tokens, at, self.count, room, self.group)
        done = torch.stack([e(part) for e, part in zip(self.experts, arrived, strict=True)])
        dropped = routing.experts.numel() - len(at.slots)
        bypassed = len(tokens) - len(at.tokens.unique())
        self.account = Account(balance_loss(routing), load_of(routing), dropped, bypassed)
        return combine(done, at, routing.gates, self.group).view(x.shape)


def balance_of(model: nn.Module) -> Tensor:
    """The load-balancing losses of all mixtures of a model, added up, after a forward: 0-d."""
    every = [part.account.balance for part in model.modules() if isinstance(part, Mixture)]
    return torch.stack(every).sum()


def shared(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that all ranks have: those whose gradients `sum_gradients` has to add up."""
    return [p for p in model.parameters() if not isinstance(p, Cut)]
