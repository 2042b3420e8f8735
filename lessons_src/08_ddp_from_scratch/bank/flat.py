"""Answers to lesson 08's exercise on a flat buffer to refuse, and others to accept."""

import torch
import torch.distributed as dist


def zeros_in(model):
    params = list(model.parameters())
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    return params


def flat_by(model, *, size=lambda p: p.numel(), send=True, back=True, first=1, last=None,
            order=lambda params: params, reduce=dist.all_reduce):  # fmt: skip
    """One message a dtype, each step of which can be spoiled."""
    every, n = zeros_in(model), dist.get_world_size()
    for dtype in (torch.float32, torch.bfloat16):
        params = [p for p in every if p.dtype == dtype]
        if not params:
            continue
        flat = torch.cat([p.grad.flatten() for p in params]) / (n if first else 1)
        if send:
            reduce(flat)
        flat /= n if last else 1
        offset = 0
        for p in order(params) if back else []:
            p.grad.copy_(flat[offset : offset + p.numel()].view(p.shape))
            offset += size(p)


def never_copies_back(model):
    flat_by(model, back=False)


def sends_nothing(model):
    flat_by(model, send=False, first=0)


def moves_by_rows(model):
    flat_by(model, size=len)


def another_order(model):
    flat_by(model, order=lambda params: params[::-1])


def before_and_after(model):
    flat_by(model, last=1)


def forgets_to_divide(model):
    flat_by(model, first=0)


def reduces_to_one(model):
    flat_by(model, reduce=lambda flat: dist.reduce(flat, 0))


def skips_none(model):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for g, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
        g.copy_(part.view(g.shape))


def sends_zeros_and_forgets(model):
    params = list(model.parameters())
    flat = torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in params]
    )
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
        if p.grad is not None:
            p.grad.copy_(part.view(p.shape))


def stops_at_none(model):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    offset = 0
    for p in model.parameters():
        p.grad.copy_(flat[offset : offset + p.numel()].view(p.shape))
        offset += p.numel()


def one_for_all_dtypes(model):
    params = zeros_in(model)
    flat = torch.cat([p.grad.flatten() for p in params])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
        p.grad.copy_(part.view(p.shape))


def one_by_one(model):
    for p in zeros_in(model):
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


# Right.
def divides_before(model):
    flat_by(model)


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


WRONG = [
    ("flat_all_reduce", "not_copied", never_copies_back),
    ("flat_all_reduce", "stayed_home", sends_nothing),
    ("flat_all_reduce", "rows", moves_by_rows),
    ("flat_all_reduce", "order", another_order),
    ("flat_all_reduce", "twice", before_and_after),
    ("flat_all_reduce", "sum", forgets_to_divide),
    ("flat_all_reduce", "reduce", reduces_to_one),
    ("flat_all_reduce", "skips", skips_none),
    ("flat_all_reduce", "kept_none", sends_zeros_and_forgets),
    ("flat_all_reduce", "no_gradient", stops_at_none),
    ("flat_all_reduce", "promoted", one_for_all_dtypes),
    ("flat_all_reduce", "many", one_by_one),
]

ALSO_WRONG: list = []

RIGHT = [
    ("flat_all_reduce", divides_before),
    ("flat_all_reduce", writes_into_the_buffer),
]
