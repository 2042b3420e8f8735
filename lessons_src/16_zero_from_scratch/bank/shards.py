"""Answers to lesson 16's exercise 2: a shard of the gradient, and its norm."""

import torch
import torch.distributed as dist

from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.scratch.ring import reduce_scatter, ring_all_reduce, ring_reduce_scatter

from .stage1 import mine

# --- 16.2a add_gradients --------------------------------------------------------------------


def taken(parameters):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    for p in parameters:
        p.grad = None
    return flat


def overwrites(parameters, shard):
    return reduce_scatter(taken(parameters)) / dist.get_world_size()


def reduces_the_running_total(parameters, shard):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    new = reduce_scatter(flat) / dist.get_world_size()
    return new if shard is None else shard + new


def zeroes_them(parameters, shard):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    for p in parameters:
        p.grad.zero_()
    new = reduce_scatter(flat) / dist.get_world_size()
    return new if shard is None else shard + new


def a_sum(parameters, shard):
    new = reduce_scatter(taken(parameters)).clone()
    return new if shard is None else shard + new


def divides_by_n_twice(parameters, shard):
    n = dist.get_world_size()
    new = reduce_scatter(taken(parameters) / n) / n
    return new if shard is None else shard + new


def means_over_micro_batches(parameters, shard):
    new = reduce_scatter(taken(parameters)) / dist.get_world_size()
    return new if shard is None else (shard + new) / 2


def the_next_block(parameters, shard):
    rank, n = dist.get_rank(), dist.get_world_size()
    summed = ring_reduce_scatter(taken(parameters))
    new = summed.tensor_split(n)[(rank + 1) % n] / n
    return new if shard is None else shard + new


def a_window(parameters, shard):
    new = reduce_scatter(taken(parameters)).div_(dist.get_world_size())
    return new if shard is None else shard.add_(new)


def stays_alone(parameters, shard):
    new = mine(taken(parameters)) / dist.get_world_size()
    return new if shard is None else shard + new


def keeps_all(parameters, shard):
    new = ring_all_reduce(taken(parameters)) / dist.get_world_size()
    return new if shard is None else shard + new


def all_reduces_and_cuts(parameters, shard):
    new = mine(ring_all_reduce(taken(parameters))) / dist.get_world_size()
    return new if shard is None else shard + new


def adds_twice(parameters, shard):
    new = reduce_scatter(taken(parameters)) / dist.get_world_size()
    return new if shard is None else shard + new + new


# Right.
def in_place(parameters, shard):
    n = dist.get_world_size()
    flat = taken(parameters).div_(n)
    if shard is None:
        shard = torch.zeros_like(mine(flat))
    shard += reduce_scatter(flat)
    return shard


def pads_and_asks_the_library(parameters, shard):
    n = dist.get_world_size()
    flat = taken(parameters)
    size = -(-len(flat) // n)
    new = torch.empty(size, dtype=flat.dtype)
    reduce_scatter_sum(new, torch.nn.functional.pad(flat, (0, n * size - len(flat))))
    new /= n
    return new if shard is None else new.add_(shard)


# --- 16.2b global_norm ----------------------------------------------------------------------


def own_norm(shard):
    return shard.norm()


def adds_norms(shard):
    norm = shard.norm()
    dist.all_reduce(norm)
    return norm


def no_root(shard):
    squares = (shard**2).sum()
    dist.all_reduce(squares)
    return squares


def mean_of_norms(shard):
    norm = shard.norm()
    dist.all_reduce(norm)
    return norm / dist.get_world_size()


def mean_of_squares(shard):
    squares = (shard**2).sum()
    dist.all_reduce(squares)
    return (squares / dist.get_world_size()).sqrt()


def largest(shard):
    norm = shard.norm()
    dist.all_reduce(norm, dist.ReduceOp.MAX)
    return norm


def signed_sum(shard):
    total = shard.sum()
    dist.all_reduce(total)
    return (total**2).sqrt()


def one_rank_knows(shard):
    squares = shard.square().sum()
    dist.reduce(squares, 0)
    return squares.sqrt()


def what_all_reduce_returns(shard):
    squares = shard.square().sum()
    return dist.all_reduce(squares)


def squares_in_place(shard):
    squares = shard.square_().sum()
    dist.all_reduce(squares)
    return squares.sqrt()


def gathers_everything(shard):
    parts = [torch.zeros_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts).norm()


# Right.
def a_number(shard):
    total = torch.tensor([float(v) ** 2 for v in shard]).sum()
    dist.all_reduce(total)
    return total.item() ** 0.5


def gathers_norms(shard):
    norms = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(norms, torch.linalg.vector_norm(shard))
    return torch.stack(norms).norm()


WRONG = [
    ("add_gradients", "only_last", overwrites),
    ("add_gradients", "counted_twice", reduces_the_running_total),
    ("add_gradients", "kept", zeroes_them),
    ("add_gradients", "sum", a_sum),
    ("add_gradients", "divided_twice", divides_by_n_twice),
    ("add_gradients", "halved", means_over_micro_batches),
    ("add_gradients", "wrong_block", the_next_block),
    ("add_gradients", "window", a_window),
    ("add_gradients", "alone", stays_alone),
    ("add_gradients", "whole", keeps_all),
    ("add_gradients", "too_much", all_reduces_and_cuts),
    ("add_gradients", "shard", adds_twice),
    ("global_norm", "own", own_norm),
    ("global_norm", "added", adds_norms),
    ("global_norm", "no_root", no_root),
    ("global_norm", "mean_of_norms", mean_of_norms),
    ("global_norm", "mean_of_squares", mean_of_squares),
    ("global_norm", "largest", largest),
    ("global_norm", "signed", signed_sum),
    ("global_norm", "reduce", one_rank_knows),
    ("global_norm", "in_place", what_all_reduce_returns),
    ("global_norm", "changed", squares_in_place),
    ("global_norm", "whole_gradient", gathers_everything),
]

# The same mistakes in other words.
ALSO_WRONG: list = []

RIGHT = [
    ("add_gradients", in_place),
    ("add_gradients", pads_and_asks_the_library),
    ("global_norm", a_number),
    ("global_norm", gathers_norms),
]

LADDER = (
    "global_norm",
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
