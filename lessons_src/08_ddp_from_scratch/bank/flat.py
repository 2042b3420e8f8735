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


def dtypes_in_order_of_the_gradients(model):
    params = list(model.parameters())
    kinds = list(dict.fromkeys(p.grad.dtype for p in params if p.grad is not None))
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for kind in kinds:
        some = [p.grad for p in params if p.grad.dtype == kind]
        flat = torch.cat([grad.flatten() for grad in some])
        dist.all_reduce(flat)
        parts = (flat / dist.get_world_size()).split([grad.numel() for grad in some])
        for grad, part in zip(some, parts, strict=True):
            grad.copy_(part.view(grad.shape))


HANG = [("dtype_left", dtypes_in_order_of_the_gradients)]
ALSO_RIGHT = [{DIVIDE: "", REDUCE: f"{DIVIDE}; {REDUCE}"}, writes_into_the_buffer]
