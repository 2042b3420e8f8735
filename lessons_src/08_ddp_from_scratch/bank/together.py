"""Answers to lesson 08's first exercise that its check must refuse, and others to accept."""

import torch.distributed as dist
from torch.nn import functional as F


def same_start(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


def loop(model, optimizer, batches, average, start=same_start, after=None, of_loss=None):
    """The lesson's loop, with its two blanks filled in."""
    start(model)
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if of_loss:
            of_loss(loss)
        loss.backward()
        average(model)
        optimizer.step()
        if after:
            after(model)


def mean_each(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def nothing(model):
    pass


def no_division(model, optimizer, batches):
    loop(model, optimizer, batches, lambda m: [dist.all_reduce(p.grad) for p in m.parameters()])


def a_literal(model, optimizer, batches):
    def average(m):
        for p in m.parameters():
            dist.all_reduce(p.grad)
            p.grad /= 2

    loop(model, optimizer, batches, average)


def rank_0s_gradient(model, optimizer, batches):
    loop(model, optimizer, batches, lambda m: [dist.broadcast(p.grad, 0) for p in m.parameters()])


def a_clone(model, optimizer, batches):
    def average(m):
        for p in m.parameters():
            grad = p.grad.clone()
            dist.all_reduce(grad)
            grad /= dist.get_world_size()

    loop(model, optimizer, batches, average)


def weights_after_the_step(model, optimizer, batches):
    def average(m):
        for p in m.parameters():
            dist.all_reduce(p.data)
            p.data /= dist.get_world_size()

    loop(model, optimizer, batches, nothing, after=average)


def no_common_start(model, optimizer, batches):
    loop(model, optimizer, batches, mean_each, start=nothing)


def the_loss(model, optimizer, batches):
    def average(loss):
        dist.all_reduce(loss.data)
        loss.data /= dist.get_world_size()

    loop(model, optimizer, batches, nothing, of_loss=average)


def nothing_travels(model, optimizer, batches):
    loop(model, optimizer, batches, nothing)


def mean_of_the_starts(model, optimizer, batches):
    def start(m):
        for p in m.parameters():
            dist.all_reduce(p.data)
            p.data /= dist.get_world_size()

    loop(model, optimizer, batches, mean_each, start=start)


def divides_twice(model, optimizer, batches):
    def average(m):
        for p in m.parameters():
            p.grad /= dist.get_world_size()
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()

    loop(model, optimizer, batches, average)


def to_one_rank(model, optimizer, batches):
    def average(m):
        for p in m.parameters():
            dist.reduce(p.grad, 0)
            p.grad /= dist.get_world_size()

    loop(model, optimizer, batches, average)


def only_the_first_step(model, optimizer, batches):
    steps = []

    def average(m):
        if not steps:
            mean_each(m)
        steps.append(1)

    loop(model, optimizer, batches, average)


def does_nothing_at_all(model, optimizer, batches):
    loop(model, optimizer, batches, nothing, start=nothing)


# Right.
def by_avg_in_the_hook(model, optimizer, batches):
    def average(m):
        for p in m.parameters():
            p.grad.div_(dist.get_world_size())
            dist.all_reduce(p.grad)

    loop(model, optimizer, batches, average)


def with_state_dicts(model, optimizer, batches):
    def start(m):
        states = [m.state_dict()]
        dist.broadcast_object_list(states, 0)
        m.load_state_dict(states[0])

    loop(model, optimizer, batches, mean_each, start=start)


WRONG = [
    ("train_together", "sum", no_division),
    ("train_together", "literal", a_literal),
    ("train_together", "rank_0", rank_0s_gradient),
    ("train_together", "clone", a_clone),
    ("train_together", "weights", weights_after_the_step),
    ("train_together", "start", no_common_start),
    ("train_together", "loss", the_loss),
    ("train_together", "stayed_home", nothing_travels),
    ("train_together", "mean_start", mean_of_the_starts),
    ("train_together", "twice", divides_twice),
    ("train_together", "reduce", to_one_rank),
    ("train_together", "drift", only_the_first_step),
]

ALSO_WRONG = [
    ("train_together", "stayed_home", does_nothing_at_all),
]

RIGHT = [
    ("train_together", by_avg_in_the_hook),
    ("train_together", with_state_dicts),
]
