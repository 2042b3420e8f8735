"""More answers to `stage1`, for the tests alone."""

import torch
import torch.distributed as dist

from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.scratch.ring import all_gather, reduce_scatter

from ..exercises.stage1 import CLEAR, MEAN, REDUCE, stage1

# words of the solution
OWN = "weights.tensor_split(n)[rank]"


def all_reduced(part):
    """The whole sum on every rank, and what becomes of it."""
    return {f"master.grad = {REDUCE}": f"dist.all_reduce(gradient); master.grad = {part}"}


def mine(x):
    return x.tensor_split(dist.get_world_size())[dist.get_rank()]


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
    ("no_master", {"own.float()": "own", f"{REDUCE}.float()": REDUCE}),
    # lesson 07's ring: rank r finishes chunk r + 1
    ("weights", {REDUCE: "ring_reduce_scatter(gradient).tensor_split(n)[rank]"}),
    ("no_step", {"return step": "return None"}),
    ("three_halves", all_reduced("gradient.tensor_split(n)[rank]")),
    ("too_much", {
        "master.grad = ": "everyone = [torch.empty_like(gradient) for _ in range(n)]\n"
                          "        dist.all_gather(everyone, gradient)\n        master.grad = ",
        REDUCE: "sum(everyone).tensor_split(n)[rank]"}),
    ("whole_state", {OWN: "weights", "all_gather(weights)": "pass", **all_reduced("gradient")}),
    ("whole_copy", {"own.float()": "weights.clone().float().tensor_split(n)[rank]"}),
    ("whole_copy", lambda *given: WeightsTwice(*given).step),
    ("raised", lambda weights, make: lambda gradient: 1 / 0),
    ("weights", lambda weights, make: lambda gradient: weights.fill_(float("nan"))),
]  # fmt: skip
ALSO_RIGHT = [
    {"optimizer = make": "buffer = torch.empty_like(master)\n    optimizer = make",
     MEAN: f"buffer.copy_({REDUCE})\n        master.grad = buffer.div_(n)"},
    # a view of the whole gradient
    {MEAN: f"{REDUCE}\n        master.grad = gradient.float().div_(n).tensor_split(n)[rank]",
     CLEAR: ""},
    by_a_generator,
    pads,
    Shards,
]  # fmt: skip
