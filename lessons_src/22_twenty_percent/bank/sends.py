"""Answers to lesson 22's exercise on ranks: what it sends, reads and holds."""

import contextlib

import torch
import torch.distributed as dist

NAME = "faster_step"


def gradients(model, loss_fn, micro_batches, parts=None, sync=-1):
    """Backward of all, inside no_sync() but for number `sync`; returns the summed loss."""
    parts = parts or len(micro_batches)
    total = torch.zeros((), dtype=torch.float64)
    for k, (x, y) in enumerate(micro_batches):
        quiet = k != sync % len(micro_batches)
        with model.no_sync() if quiet else contextlib.nullcontext():
            loss = loss_fn(model(x), y) / parts
            loss.backward()
        total += loss.detach()
    return total


def mean_of(total):
    dist.all_reduce(total)
    return total / dist.get_world_size()


def the_slow_step(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) / len(micro_batches)
        loss.backward()
        everyone = loss.detach().clone()
        dist.all_reduce(everyone)
        total += everyone.item() / dist.get_world_size()
    optimizer.step()
    return total


def forward_stays_outside(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for k, (x, y) in enumerate(micro_batches, start=1):
        loss = loss_fn(model(x), y) / len(micro_batches)
        last = k == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            loss.backward()
        total += loss.detach()
    optimizer.step()
    return mean_of(total)


def reports_every_loss(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for k, (x, y) in enumerate(micro_batches, start=1):
        last = k == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
        total += mean_of(loss.detach().clone())
    optimizer.step()
    return total


def one_message_a_weight(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    with model.no_sync():
        for x, y in micro_batches:
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
            total += loss.detach()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    optimizer.step()
    return mean_of(total)


def adds_numbers(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = 0.0
    for k, (x, y) in enumerate(micro_batches, start=1):
        last = k == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return mean_of(torch.tensor(total, dtype=torch.float64))


def returns_an_item(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    return mean_of(total).item()


def returns_a_numpy_number(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    return float(mean_of(total).numpy())


def never_steps(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    return mean_of(gradients(model, loss_fn, micro_batches))


def steps_every_time(model, optimizer, loss_fn, micro_batches):
    total = torch.zeros((), dtype=torch.float64)
    for x, y in micro_batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y) / len(micro_batches)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return mean_of(total)


def all_of_them_at_once(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    x, y = (torch.cat(part) for part in zip(*micro_batches, strict=True))
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return mean_of(loss.detach().clone())


def one_backward(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    loss = sum(loss_fn(model(x), y) for x, y in micro_batches) / len(micro_batches)
    loss.backward()
    optimizer.step()
    return mean_of(loss.detach().clone())


def returns_nothing(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    gradients(model, loss_fn, micro_batches)
    optimizer.step()


def only_rank_0_asks(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    if dist.get_rank() == 0:
        dist.all_reduce(total)
    return total / dist.get_world_size()


# Right.
def first_all_but_the_last(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad(set_to_none=True)
    *early, (x, y) = micro_batches
    losses = []
    with model.no_sync():
        for a, b in early:
            loss = loss_fn(model(a), b) / len(micro_batches)
            loss.backward()
            losses.append(loss.detach())
    loss = loss_fn(model(x), y) / len(micro_batches)
    loss.backward()
    total = torch.stack([*losses, loss.detach()]).sum()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    optimizer.step()
    return total


def by_hand_in_one_message(model, optimizer, loss_fn, micro_batches):
    total = torch.zeros((), dtype=torch.float64)
    for x, y in micro_batches:
        loss = loss_fn(model.module(x), y) / len(micro_batches)
        loss.backward()
        total += loss.detach()
    params = list(model.parameters())
    flat = torch.cat([total.flatten(), *(p.grad.flatten() for p in params)])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    parts = flat[1:].split([p.numel() for p in params])
    for p, part in zip(params, parts, strict=True):
        p.grad = part.view_as(p)
    optimizer.step()
    optimizer.zero_grad()
    return flat[0]


def through_the_flag(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    losses = []
    for k, (x, y) in enumerate(micro_batches):
        model.require_backward_grad_sync = k + 1 == len(micro_batches)
        loss = loss_fn(model(x), y) / len(micro_batches)
        loss.backward()
        losses.append(loss.detach())
    stacked = torch.stack(losses)
    dist.all_reduce(stacked)
    optimizer.step()
    return stacked.sum() / dist.get_world_size()


WRONG = [
    (NAME, "every_micro_batch", the_slow_step),
    (NAME, "forward_outside", forward_stays_outside),
    (NAME, "loss_messages", reports_every_loss),
    (NAME, "one_by_one", one_message_a_weight),
    (NAME, "reads", adds_numbers),
    (NAME, "read_once", returns_an_item),
    (NAME, "not_a_tensor", returns_a_numpy_number),
    (NAME, "no_step", never_steps),
    (NAME, "steps", steps_every_time),
    (NAME, "all_at_once", all_of_them_at_once),
    (NAME, "none", returns_nothing),
    (NAME, "waits", only_rank_0_asks),
]
ALSO_WRONG = [(NAME, "all_at_once", one_backward)]


def every_loss_to_every_rank(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    own = gradients(model, loss_fn, micro_batches)
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, own)
    optimizer.step()
    return torch.stack(everyone).mean()


RIGHT = [
    (NAME, every_loss_to_every_rank),
    (NAME, first_all_but_the_last),
    (NAME, by_hand_in_one_message),
    (NAME, through_the_flag),
]
