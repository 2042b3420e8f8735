"""More answers to `flat_all_reduce`, for the tests alone."""

import torch
import torch.distributed as dist

from dtlib.learn.solutions import altered

from ..exercises.flat import DIVIDE, flat_all_reduce


def zeros_in(model):
    params = list(model.parameters())
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    return params


def shifted_by_one(model):
    params = zeros_in(model)
    flat = torch.cat([p.grad.flatten() for p in params])
    dist.all_reduce(flat)
    flat = flat.roll(1) / dist.get_world_size()
    for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
        p.grad.copy_(part.view(p.shape))


def divides_before(model):
    params = zeros_in(model)
    for dtype in {p.dtype: None for p in params}:
        some = [p for p in params if p.dtype == dtype]
        flat = torch.cat([p.grad.flatten() for p in some]) / dist.get_world_size()
        dist.all_reduce(flat)
        for p, part in zip(some, flat.split([p.numel() for p in some]), strict=True):
            p.grad.copy_(part.view(p.shape))


def writes_into_the_buffer(model):
    params = zeros_in(model)
    for dtype in {p.dtype: None for p in params}:
        some = [p for p in params if p.dtype == dtype]
        flat = torch.empty(sum(p.numel() for p in some), dtype=dtype)
        views = flat.split([p.numel() for p in some])
        for p, view in zip(some, views, strict=True):
            view.copy_(p.grad.flatten())
        dist.all_reduce(flat)
        for p, view in zip(some, views, strict=True):
            p.grad = view.view(p.shape) / dist.get_world_size()


def divides_by(divisor):
    """The solution with another divisor; a function of the ranks, or a number."""
    return altered(flat_all_reduce, {DIVIDE: f"flat /= {divisor}"})


ALSO_WRONG = [
    ("order", shifted_by_one),
    ("literal", divides_by("4")),
    ("literal", divides_by("max(1, dist.get_world_size() - 1)")),
]
ALSO_RIGHT = [divides_before, writes_into_the_buffer]
