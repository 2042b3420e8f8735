"""More answers to `global_norm`, for the tests alone."""

import torch
import torch.distributed as dist


def squares_in_place(shard):
    squares = shard.square_().sum()
    dist.all_reduce(squares)
    return squares.sqrt()


def gathers_everything(shard):
    parts = [torch.zeros_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts).norm()


def a_number(shard):
    total = torch.tensor([float(v) ** 2 for v in shard]).sum()
    dist.all_reduce(total)
    return total.item() ** 0.5


def gathers_norms(shard):
    norms = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(norms, torch.linalg.vector_norm(shard))
    return torch.stack(norms).norm()


def adds_twice(shard):
    both = [shard.square().sum(), torch.tensor(float(len(shard)))]
    for one in both:
        dist.all_reduce(one)
    return both[0].sqrt()


ALSO_WRONG = [("changed", squares_in_place), ("whole_gradient", gathers_everything)]
ALSO_RIGHT = [a_number, gathers_norms, adds_twice]
LADDER = (
    """\
def global_norm(shard):
    norm = shard.norm()
    dist.all_reduce(norm)
    return norm""",
    """\
def global_norm(shard):
    length = torch.linalg.vector_norm(shard)
    dist.all_reduce(length, op=dist.ReduceOp.SUM)
    return length.item()""",
)
