"""Answers to lesson 16's exercise 1, the sharded optimizer, wrong ones and right ones."""

import torch
import torch.distributed as dist

from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.scratch.ring import all_gather, reduce_scatter, ring_all_reduce, ring_reduce_scatter


def mine(x):
    return x.tensor_split(dist.get_world_size())[dist.get_rank()]


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


def a_master_for_all(weights, make_optimizer):
    masters = weights.clone().float()
    optimizer = make_optimizer([mine(masters)])

    def step(gradient):
        own = optimizer.param_groups[0]["params"][0]
        own.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        optimizer.step()
        mine(weights).copy_(own)
        optimizer.zero_grad()
        all_gather(weights)

    return step


class WeightsTwice:
    def __init__(self, weights, make_optimizer):
        self.weights, self.copy = weights, weights.clone()
        self.master = mine(weights).float().clone()
        self.optimizer = make_optimizer([self.master])

    def step(self, gradient):
        self.master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
        self.optimizer.step()
        mine(self.copy).copy_(self.master)
        all_gather(self.copy)
        self.weights.copy_(self.copy)


def weights_twice(weights, make_optimizer):
    return WeightsTwice(weights, make_optimizer).step


# Right.
def own_buffers(weights, make_optimizer):
    n = dist.get_world_size()
    master = mine(weights).clone().float()
    buffer = torch.empty_like(master)
    optimizer = make_optimizer([master])

    def step(gradient):
        buffer.copy_(reduce_scatter(gradient))
        master.grad = buffer.div_(n)
        optimizer.step()
        optimizer.zero_grad()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def gradient_of_all(weights, make_optimizer):
    master = mine(weights).clone().float()
    optimizer = make_optimizer([master])

    def step(gradient):
        reduce_scatter(gradient)
        master.grad = mine(gradient.float().div_(dist.get_world_size()))  # a window on all
        optimizer.step()
        mine(weights).copy_(master)
        all_gather(weights)

    return step


def by_a_generator(weights, make_optimizer):
    def steps():
        master = mine(weights).float()
        optimizer = make_optimizer([master])
        gradient = yield
        while True:
            master.grad = reduce_scatter(gradient).float() / dist.get_world_size()
            optimizer.step()
            mine(weights).copy_(master)
            all_gather(weights)
            gradient = yield

    running = steps()
    next(running)
    return running.send


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
    ("stage1", "whole_copy", a_master_for_all),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("stage1", "no_master", no_master),
    ("stage1", "whole_copy", weights_twice),
]

RIGHT = [
    ("stage1", pads),
    ("stage1", own_buffers),
    ("stage1", gradient_of_all),
    ("stage1", by_a_generator),
    ("stage1", Shards),
]
