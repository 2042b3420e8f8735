"""More answers to `scheduler_for`, for the tests alone."""

import torch
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    OneCycleLR,
    ReduceLROnPlateau,
)


def rate_for_factor(optimizer, steps, num_processes):
    rate, total = optimizer.param_groups[0]["lr"], steps * num_processes
    return LambdaLR(optimizer, lambda k: rate * max(0.0, 1 - k / total))


def whole_steps(optimizer, steps, num_processes):
    return LambdaLR(optimizer, lambda k: max(0, steps - k // num_processes) / steps)


def factor_by_factor(optimizer, steps, num_processes):
    total = steps * num_processes
    return MultiplicativeLR(optimizer, lambda k: max(0, total - k) / max(1, total - k + 1))


def one_cycle(optimizer, steps, num_processes):
    return OneCycleLR(optimizer, optimizer.param_groups[0]["lr"], total_steps=steps * num_processes)


def table(optimizer, steps, num_processes):
    total = steps * num_processes
    return LambdaLR(optimizer, [1 - k / total for k in range(total)].__getitem__)


class FirstForAll(torch.optim.lr_scheduler.LRScheduler):
    """Gives all groups the first one's rate."""

    def __init__(self, optimizer, total):
        self.total = total
        super().__init__(optimizer)

    def get_lr(self):
        rate = self.base_lrs[0] * max(0.0, 1 - self.last_epoch / self.total)
        return [rate] * len(self.base_lrs)


ALSO_WRONG = [
    ("other_groups", lambda optimizer, steps, n: FirstForAll(optimizer, steps * n)),
    ("starts_elsewhere", one_cycle),
    ("stopped", table),
    ("stopped", lambda optimizer, steps, n: ReduceLROnPlateau(optimizer)),
    ("squared", rate_for_factor),
    ("beyond", lambda optimizer, steps, n: LambdaLR(optimizer, lambda k: abs(1 - k / steps / n))),
    ("starts_elsewhere", lambda optimizer, steps, n: LinearLR(optimizer, total_iters=steps * n)),
    (
        "too_soon",
        lambda optimizer, steps, n: LambdaLR(optimizer, lambda k: max(0, 1 - k * n / steps)),
    ),
    (
        "constant",
        lambda optimizer, steps, n: LambdaLR(optimizer, lambda k: max(0, 1 - k // (steps * n))),
    ),
    ("other_line", lambda optimizer, steps, n: CosineAnnealingLR(optimizer, steps * n)),
    (
        "constant",
        lambda optimizer, steps, n: LinearLR(
            torch.optim.SGD([torch.zeros(1)], 0.5), 1, 0, steps * n
        ),
    ),
    ("other_line", lambda optimizer, steps, n: LinearLR(optimizer, 1, 0.1, steps * n)),
    ("no_scheduler", lambda optimizer, steps, n: lambda k: max(0.0, 1 - k / (steps * n))),
]
ALSO_RIGHT = [
    whole_steps,
    factor_by_factor,
    lambda optimizer, steps, n: LinearLR(optimizer, 1.0, 0.0, total_iters=steps * n),
]

LINE = """\
def scheduler_for(optimizer, steps, num_processes):
    {how}
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)"""
LADDER = (
    LINE.format(how="factor = lambda k: max(0.0, 1 - k / steps)"),
    LINE.format(how="factor = lambda step: max(0.0, (steps - step) / steps)"),
)
