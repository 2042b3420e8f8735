"""More answers to `flat_all_reduce`, for the tests alone."""

import torch
import torch.distributed as dist

from ..exercises.flat import DIVIDE

REDUCE = "dist.all_reduce(flat)"  # words of the solution


def writes_into_the_buffer(model):
    params = list(model.parameters())
    for dtype in {p.dtype: None for p in params}:
        some = [p for p in params if p.dtype == dtype]
        flat = torch.zeros(sum(p.numel() for p in some), dtype=dtype)
        views = flat.split([p.numel() for p in some])
        for p, view in zip(some, views, strict=True):
            if p.grad is not None:
                view.copy_(p.grad.flatten())
        dist.all_reduce(flat)
        for p, view in zip(some, views, strict=True):
            p.grad = view.view(p.shape) / dist.get_world_size()


ALSO_WRONG = [
    ("order", {DIVIDE: "flat = flat.roll(1) / dist.get_world_size()"}),
    ("literal", {DIVIDE: "flat /= 4"}),
    ("literal", {DIVIDE: "flat /= max(1, dist.get_world_size() - 1)"}),
]
ALSO_RIGHT = [{DIVIDE: "", REDUCE: f"{DIVIDE}; {REDUCE}"}, writes_into_the_buffer]
