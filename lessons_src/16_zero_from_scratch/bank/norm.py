"""More answers to `global_norm`, for the tests alone."""

import torch
import torch.distributed as dist


def gathers_everything(shard):
    parts = [torch.zeros_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts).norm()


def gathers_norms(shard):
    norms = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(norms, torch.linalg.vector_norm(shard))
    return torch.stack(norms).norm()


def adds_twice(shard):
    both = [shard.square().sum(), torch.tensor(float(len(shard)))]
    for one in both:
        dist.all_reduce(one)
    return both[0].sqrt()


ALSO_WRONG = [
    ("changed", {"square()": "square_()"}),
    ("whole_gradient", gathers_everything),
    ("length", lambda shard: float("nan")),
    ("length", lambda shard: -5.0),
    ("length", lambda shard: 12.0),  # not painted: 12 does not tell which ranks are in it
    ("kind", lambda shard: [1.0]),
]
ALSO_RIGHT = [{"squares.sqrt()": "squares.item() ** 0.5"}, gathers_norms, adds_twice]
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
