"""Train the GPT of lesson 19 by Muon on shards, and beside it one process with whole matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.ranks.dist import world

from .fsdp_runs import Sizes, whole
from .orthogonal import orthogonalize

MuonStep = Callable[[Any, Any, float], Any]
RATE = 0.02


def train_both(muon_step: MuonStep, sizes: Sizes) -> tuple[float, str]:
    """The largest distance of a weight after `sizes.steps` steps, and what a step gathers."""
    from dtlib.ranks.launcher import launch

    every = launch(_on_rank, muon_step, sizes, ranks=sizes.ranks, device=sizes.device, show=False)
    return max(far for far, _ in every), every[0][1]


def _on_rank(muon_step: MuonStep, sizes: Sizes) -> tuple[float, str]:
    from torch.distributed.device_mesh import init_device_mesh

    here = world()
    mesh = init_device_mesh(here.device.type, (here.world_size,))
    model, twin = (sizes.model().to(here.device) for _ in range(2))
    for module in (*model.h, model):
        fully_shard(module, mesh=mesh)
    log = CollectiveLog()
    momenta: list[dict[str, Any]] = [{}, {}]
    for k in range(sizes.steps):
        rows = sizes.batch(k).to(here.device)
        mine = rows.tensor_split(here.world_size)[here.rank]
        for part, one, step, momentum, watched in (
            (mine, model, muon_step, momenta[0], log),
            (rows, twin, _whole_step, momenta[1], torch.no_grad()),
        ):
            (one(part[:, :-1], part[:, 1:]) / part[:, 1:].numel()).backward()
            with torch.no_grad(), watched:
                _update(one, step, momentum)
            one.zero_grad()
    want = dict(twin.named_parameters())
    far = max(float((whole(p) - want[name]).abs().max()) for name, p in model.named_parameters())
    tally = log.tallies["all_gather"]
    matrices = tally.calls // sizes.steps
    dist.barrier()
    return far, f"{matrices} matrices, {tally.wire / sizes.steps:,.0f} bytes sent by a rank"


def _update(model: nn.Module, step: MuonStep, momenta: dict[str, Any]) -> None:
    """Muon for the matrices of the blocks, plain SGD for everything else."""
    for name, p in model.named_parameters():
        if name.startswith("h.") and p.dim() == 2:
            if name not in momenta:
                momenta[name] = torch.zeros_like(p)
            step(p, momenta[name], RATE)
        elif p.grad is not None:
            p.add_(p.grad, alpha=-RATE)


def _whole_step(p: torch.Tensor, momentum: torch.Tensor, lr: float) -> None:
    """Muon in one process."""
    assert p.grad is not None
    momentum.mul_(0.95).add_(p.grad)
    p.add_(orthogonalize(momentum), alpha=-lr)
