"""Answers to lesson 16's core exercises: stage 1, a shard of the gradient, its norm.

Each wrong one is a mistake that people make, with the key of the sentence that it must get.
"""

import torch
import torch.distributed as dist

from dtlib.dist import reduce_scatter_sum
from dtlib.scratch.ring import all_gather, reduce_scatter, ring_all_reduce, ring_reduce_scatter


def mine(x):
    return x.tensor_split(dist.get_world_size())[dist.get_rank()]


# --- 16.1 stage1 ----------------------------------------------------------------------------


def nobody_is_told(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        optimizer.step()
        mine(weights).copy_(master)

    return step


def drops_the_rest(weights, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    size = len(weights) // n
    own = weights[rank * size : (rank + 1) * size]
    master = own.float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = reduce_scatter(gradient[: n * size]).float() / n
        optimizer.step()
        own.copy_(master)
        all_gather(weights[: n * size])

    return step


def state_for_all(weights, make_optimizer):
    master = weights.float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = ring_all_reduce(gradient).float() / dist.get_world_size()
        optimizer.step()
        weights.copy_(master)

    return step


def updates_all_and_gathers(weights, make_optimizer):
    master = weights.float()
    optimizer = make_optimizer([master])

    def step(gradient):
        whole = torch.zeros_like(gradient)
        mine(whole).copy_(reduce_scatter(gradient) / dist.get_world_size())
        master.grad = whole.float()
        optimizer.step()
        mine(weights).copy_(mine(master))
        all_gather(weights)

    return step


def three_passes(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        dist.all_reduce(gradient)
        master.grad = mine(gradient).float() / dist.get_world_size()
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def master_made_anew(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.copy_(mine(weights))
        master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def no_master(weights, make_optimizer):
    own = mine(weights)
    optimizer = make_optimizer([own])

    def step(gradient):
        own.grad = reduce_scatter(gradient) / dist.get_world_size()
        optimizer.step()
        all_gather(weights)

    return step


def gathers_moments(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        optimizer.step()
        mine(weights).copy_(master)
        for value in optimizer.state[master].values():
            if value.dim():
                whole = torch.zeros(len(weights))
                mine(whole).copy_(value)
                all_gather(whole)

    return step


def gathers_a_copy(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights.clone())

    return step


def own_gradient(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = mine(gradient).float()
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def sums(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = reduce_scatter(gradient).float()
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def divides_twice(weights, make_optimizer):
    n = dist.get_world_size()
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = reduce_scatter(gradient / n).float() / n
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def a_new_optimizer_each_step(weights, make_optimizer):
    master = mine(weights).float()

    def step(gradient):
        master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        make_optimizer([master]).step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def moves_a_copy(weights, make_optimizer):
    master = mine(weights).float().clone()
    optimizer = make_optimizer([master])

    def step(gradient):
        nonlocal weights
        master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        optimizer.step()
        whole = torch.zeros(len(weights))
        mine(whole).copy_(master)
        weights = all_gather(whole)

    return step


def the_ring_of_lesson_7(weights, make_optimizer):
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        summed = ring_reduce_scatter(gradient)  # rank r finishes chunk r + 1
        master.grad = mine(summed).float() / dist.get_world_size()
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def steps_at_once(weights, make_optimizer):
    make_optimizer([mine(weights).float()])


def gathers_each_gradient(weights, make_optimizer):
    n = dist.get_world_size()
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        everyone = [torch.empty_like(gradient) for _ in range(n)]
        dist.all_gather(everyone, gradient)
        master.grad = mine(sum(everyone)).float() / n
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


# Right.
def pads(weights, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    psi = len(weights)
    size = (psi + n - 1) // n

    def padded(x):
        return torch.cat([x, x.new_zeros(n * size - psi)])

    master = padded(weights)[rank * size : (rank + 1) * size].float().clone()
    optimizer = make_optimizer([master])

    def step(gradient):
        shard = torch.empty(size, dtype=gradient.dtype)
        reduce_scatter_sum(shard, padded(gradient))
        master.grad = shard.float() / n
        optimizer.step()
        parts = [torch.empty(size, dtype=weights.dtype) for _ in range(n)]
        dist.all_gather(parts, master.to(weights.dtype))
        weights.copy_(torch.cat(parts)[:psi])

    return step


class Shards:
    def __init__(self, weights, make_optimizer):
        self.weights, self.chunks = weights, weights.chunk(dist.get_world_size())
        own = weights.tensor_split(dist.get_world_size())[dist.get_rank()]
        self.own, self.master = own, own.clone().to(torch.float32)
        self.optimizer = make_optimizer([self.master])

    def __call__(self, gradient):
        gradient /= dist.get_world_size()
        self.master.grad = reduce_scatter(gradient).to(torch.float32)
        self.optimizer.step()
        self.own[:] = self.master
        all_gather(self.weights)


def broadcasts(weights, make_optimizer):
    n = dist.get_world_size()
    master = mine(weights).float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = reduce_scatter(gradient).float().div(n)
        optimizer.step()
        mine(weights).copy_(master)
        for rank, part in enumerate(weights.tensor_split(n)):
            dist.broadcast(part, rank)

    return step


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
    new = torch.empty(size)
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
    ("stage1", "no_gather", nobody_is_told),
    ("stage1", "remainder", drops_the_rest),
    ("stage1", "whole_state", state_for_all),
    ("stage1", "three_halves", three_passes),
    ("stage1", "no_master", master_made_anew),
    ("stage1", "moments", gathers_moments),
    ("stage1", "lost_gather", gathers_a_copy),
    ("stage1", "own_gradient", own_gradient),
    ("stage1", "sum", sums),
    ("stage1", "divided_twice", divides_twice),
    ("stage1", "renewed", a_new_optimizer_each_step),
    ("stage1", "unmoved", moves_a_copy),
    ("stage1", "weights", the_ring_of_lesson_7),
    ("stage1", "no_step", steps_at_once),
    ("stage1", "too_much", gathers_each_gradient),
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
ALSO_WRONG = [
    ("stage1", "no_master", no_master),
    ("stage1", "whole_state", updates_all_and_gathers),
]

RIGHT = [
    ("stage1", pads),
    ("stage1", Shards),
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
