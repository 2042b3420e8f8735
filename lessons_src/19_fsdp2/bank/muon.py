"""More answers to `muon_step`, for the tests alone."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate

from ..exercises.muon import CUT, MOMENTUM, MOVE, UPDATE, WHOLE
from ..orthogonal import orthogonalize


def from_rank_0(p, momentum, lr):
    """Rank 0's update for all, although all have computed the same."""
    momentum.mul_(0.95).add_(p.grad)
    update = orthogonalize(momentum.full_tensor())
    dist.broadcast(update, 0)
    each, rank = -(-len(p) // p.device_mesh.size()), dist.get_rank()
    p.to_local().add_(update[rank * each : (rank + 1) * each], alpha=-lr)


def gathers_the_gradient(p, momentum, lr):
    """Two gathers: the gradient, and the momentum that it was added to."""
    p.grad.full_tensor()
    momentum.mul_(0.95).add_(p.grad)
    update = orthogonalize(momentum.full_tensor())
    each = -(-len(p) // p.device_mesh.size())
    rank = dist.get_rank()
    p.to_local().add_(update[rank * each : (rank + 1) * each], alpha=-lr)


# Right.
def by_slices(p, momentum, lr):
    momentum *= 0.95
    momentum += p.grad
    update = orthogonalize(momentum.full_tensor().T).T
    each, rank = -(-p.shape[0] // dist.get_world_size()), dist.get_rank()
    p.to_local().sub_(lr * update[rank * each : (rank + 1) * each])


def by_redistribution(p, momentum, lr):
    momentum.copy_(0.95 * momentum + p.grad)
    whole = momentum.redistribute(placements=[Replicate()]).to_local()
    chunks = torch.chunk(orthogonalize(whole), dist.get_world_size())
    if dist.get_rank() < len(chunks):
        p.to_local().add_(chunks[dist.get_rank()], alpha=-lr)


def begins_at_its_own_size(p, momentum, lr):
    """Wrong on the last rank alone, whose shard is shorter."""
    momentum.mul_(0.95).add_(p.grad)
    update, mine = orthogonalize(momentum.full_tensor()), p.to_local()
    first = dist.get_rank() * len(mine)
    mine.add_(update[first : first + len(mine)], alpha=-lr)


ALSO_WRONG = [
    ("running_mean", {MOMENTUM: "momentum.lerp_(p.grad, 0.05)"}),
    ("other_rows", begins_at_its_own_size),
    ("sent_again", {CUT: "distribute_tensor(update, mesh, places)"}),
    ("sent_again", gathers_the_gradient),
    ("sent_again", from_rank_0),
    ("changed", {MOVE: f"{MOVE}\n    p.grad.zero_()"}),
    ("unmoved", {MOVE: "mine"}),
    ("unmoved", lambda p, momentum, lr: [].sort()),
    ("sign", {UPDATE: "-orthogonalize(whole)"}),
    ("no_rate", {MOVE: "p.add_(mine, alpha=-1)"}),
    ("raised", {WHOLE: "momentum.whole()"}),
    ("unrecognised", {UPDATE: "orthogonalize(whole) + 1"}),
]
ALSO_RIGHT = [by_slices, by_redistribution]
