"""Answers to lesson 08's core exercises that its checks must refuse, and others to accept."""

import torch
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


# --- 8.1 train_together ---------------------------------------------------------------------


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


# --- 8.2 flat_all_reduce --------------------------------------------------------------------


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

ALSO_WRONG = [("train_together", "stayed_home", does_nothing_at_all)]

RIGHT = [
    ("train_together", by_avg_in_the_hook),
    ("train_together", with_state_dicts),
    ("flat_all_reduce", divides_before),
    ("flat_all_reduce", writes_into_the_buffer),
]
