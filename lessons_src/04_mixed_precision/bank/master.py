"""More answers to `master_step`, for the tests alone."""

import torch

from ..exercises.master import master_step


def low_becomes_the_master(low, master, gradient, lr):
    master -= lr * gradient.float()
    low.data = master.data


def master_becomes_low(low, master, gradient, lr):
    master.data = (master - lr * gradient.float()).bfloat16()
    low.copy_(master)


def rounds_the_master(low, master, gradient, lr):
    master.copy_((master - lr * gradient.float()).half().float())
    low.copy_(master)


def through_half(low, master, gradient, lr):
    master -= lr * gradient.float()
    low.copy_(master.half())


def by_optimizer(low, master, gradient, lr):
    p = torch.nn.Parameter(master)
    p.grad = gradient.float()
    torch.optim.SGD([p], lr=lr).step()
    low[...] = p.detach()


def by_sub(low, master, gradient, lr):
    master.sub_(gradient, alpha=lr)
    low.copy_(master)


def by_slices(low, master, gradient, lr):
    master[:] = master - gradient.to(torch.float32) * lr
    low[:] = master.to(torch.bfloat16)
    return low


ALSO_WRONG = [
    ("low_kind", low_becomes_the_master),
    ("master_kind", master_becomes_low),
    ("long_step", lambda low, master, gradient, lr: master_step(low, master, gradient, lr / 2)),
    ("short_steps", rounds_the_master),
    ("not_rounded", through_half),
    ("nothing_moved", lambda low, master, gradient, lr: (low, master)),
    ("raised", lambda low, master, gradient, lr: master.nothing()),
]
ALSO_RIGHT = [by_optimizer, by_sub, by_slices]
