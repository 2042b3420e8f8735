"""More answers to `master_step`, for the tests alone."""

import torch

from ..exercises.master import master_step

MOVE, RENEW = "master -= lr * gradient.float()", "low.copy_(master)"  # words of the solution
MOVED = "(master - lr * gradient.float())"


def by_optimizer(low, master, gradient, lr):
    p = torch.nn.Parameter(master)
    p.grad = gradient.float()
    torch.optim.SGD([p], lr=lr).step()
    low[...] = p.detach()


ALSO_WRONG = [
    ("low_kind", {RENEW: "low.data = master.data"}),
    ("master_kind", {MOVE: f"master.data = {MOVED}.bfloat16()"}),
    ("long_step", lambda low, master, gradient, lr: master_step(low, master, gradient, lr / 2)),
    ("short_steps", {MOVE: f"master.copy_({MOVED}.half().float())"}),
    ("not_rounded", {RENEW: "low.copy_(master.half())"}),
    ("nothing_moved", lambda low, master, gradient, lr: (low, master)),
    ("raised", lambda low, master, gradient, lr: master.nothing()),
]
ALSO_RIGHT = [
    by_optimizer,
    {MOVE: "master.sub_(gradient, alpha=lr)"},
    {MOVE: f"master[:] = {MOVED}", RENEW: "low[:] = master.bfloat16()\n    return low"},
]
