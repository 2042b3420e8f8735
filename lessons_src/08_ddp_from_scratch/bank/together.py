"""More answers to `train_together`, for the tests alone."""

import torch.distributed as dist
from torch.nn import functional as F


def loop(model, optimizer, batches, average=None, start=True, of_loss=None):
    """The lesson's loop, with its two blanks filled in."""
    for p in model.parameters() if start else ():
        dist.broadcast(p.data, src=0)
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if of_loss:
            of_loss(loss)
        loss.backward()
        for p in model.parameters() if average else ():
            average(p.grad)
        optimizer.step()


def sum_from_starts_of_their_own(model, optimizer, batches):
    loop(model, optimizer, batches, dist.all_reduce, start=False)


def gathers_and_adds(model, optimizer, batches):
    def average(grad):
        parts = [grad.clone() for _ in range(dist.get_world_size())]
        dist.all_gather(parts, grad)
        grad.copy_(sum(parts))

    loop(model, optimizer, batches, average)


def a_third(model, optimizer, batches):
    def average(grad):
        dist.all_reduce(grad)
        grad /= 3

    loop(model, optimizer, batches, average)


def divides_a_copy(model, optimizer, batches):
    loop(model, optimizer, batches, lambda g: dist.all_reduce(g / dist.get_world_size()))


def divides_the_loss(model, optimizer, batches):
    def average(loss):
        loss.data /= dist.get_world_size()
        dist.all_reduce(loss.data)

    loop(model, optimizer, batches, of_loss=average)


def reduces_divided(model, optimizer, batches):
    loop(model, optimizer, batches, lambda g: dist.reduce(g.div_(dist.get_world_size()), 0))


def one_after_two_thirds(model, optimizer, batches):
    loop(model, optimizer, batches[:-1], average)
    loop(model, optimizer, batches[-1:], average if len(batches) == 1 else None, start=False)


def returns_after_the_first_batch(model, optimizer, batches):
    loop(model, optimizer, batches[:1], average)


def average(grad):
    dist.all_reduce(grad)
    grad /= dist.get_world_size()


def divides_before(model, optimizer, batches):
    loop(model, optimizer, batches, lambda g: dist.all_reduce(g.div_(dist.get_world_size())))


def with_state_dicts(model, optimizer, batches):
    states = [model.state_dict()]
    dist.broadcast_object_list(states, 0)
    model.load_state_dict(states[0])
    loop(model, optimizer, batches, average, start=False)


ALSO_WRONG = [
    ("start", sum_from_starts_of_their_own),
    ("sum", gathers_and_adds),
    ("literal", a_third),
    ("clone", divides_a_copy),
    ("loss", divides_the_loss),
    ("reduce", reduces_divided),
    ("drift", one_after_two_thirds),
    ("drift", returns_after_the_first_batch),
]
ALSO_RIGHT = [divides_before, with_state_dicts]
