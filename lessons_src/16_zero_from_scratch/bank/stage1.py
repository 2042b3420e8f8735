"""More answers to `stage1`, for the tests alone."""

import torch
import torch.distributed as dist

from dtlib.learn.solutions import altered
from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.scratch.ring import all_gather, reduce_scatter, ring_all_reduce, ring_reduce_scatter

from ..exercises.stage1 import stage1


def mine(x):
    return x.tensor_split(dist.get_world_size())[dist.get_rank()]


def with_gradient(shard_of):
    """An answer that gets its shard of the summed gradient in another way."""

    def answer(weights, make_optimizer):
        master = mine(weights).clone().float()
        optimizer = make_optimizer([master])

        def step(gradient):
            master.grad = shard_of(gradient).float() / dist.get_world_size()
            optimizer.step()
            optimizer.zero_grad()
            mine(weights).copy_(master)
            all_gather(weights)

        return step

    return answer


def state_for_all(weights, make_optimizer):
    master = weights.float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = ring_all_reduce(gradient).float() / dist.get_world_size()
        optimizer.step()
        weights.copy_(master)

    return step


def all_reduced(gradient):
    dist.all_reduce(gradient)
    return mine(gradient)


def all_gathered(gradient):
    everyone = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, gradient)
    return mine(sum(everyone))


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
        self.train = stage1(self.copy, make_optimizer)

    def step(self, gradient):
        self.train(gradient)
        self.weights.copy_(self.copy)


def reduced_by_the_library(weights, make_optimizer):
    """The sum, and with collectives of torch alone."""
    n = dist.get_world_size()
    step = pads(weights, make_optimizer)
    return lambda gradient: step(gradient * n)


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
        step, gradient = stage1(weights, make_optimizer), (yield)
        while True:
            step(gradient)
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
        self.weights, self.own = weights, mine(weights)
        self.master = self.own.clone().to(torch.float32)
        self.optimizer = make_optimizer([self.master])

    def __call__(self, gradient):
        gradient /= dist.get_world_size()
        self.master.grad = reduce_scatter(gradient).to(torch.float32)
        self.optimizer.step()
        self.own[:] = self.master
        all_gather(self.weights)


ALSO_WRONG = [
    ("sum", reduced_by_the_library),
    ("no_master", altered(stage1, {"own.float()": "own", "(gradient).float()": "(gradient)"})),
    # lesson 07's ring: rank r finishes chunk r + 1
    ("weights", with_gradient(lambda gradient: mine(ring_reduce_scatter(gradient)))),
    ("no_step", altered(stage1, {"return step": "return None"})),
    ("three_halves", with_gradient(all_reduced)),
    ("too_much", with_gradient(all_gathered)),
    ("whole_state", state_for_all),
    ("whole_copy", a_master_for_all),
    ("whole_copy", lambda *given: WeightsTwice(*given).step),
]
ALSO_RIGHT = [own_buffers, gradient_of_all, by_a_generator, pads, Shards]
