"""Answers to lesson 22's exercise on ranks: the weights and the loss that a step leaves."""

import contextlib

import torch
import torch.distributed as dist

from .sends import NAME, gradients, mean_of


def quiet_for_all(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    with model.no_sync():
        for x, y in micro_batches:
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
            total += loss.detach()
    optimizer.step()
    return mean_of(total)


def sends_with_the_first(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches, sync=0)
    optimizer.step()
    return mean_of(total)


def never_empties(model, optimizer, loss_fn, micro_batches):
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    return mean_of(total)


def empties_too_often(model, optimizer, loss_fn, micro_batches):
    total = torch.zeros((), dtype=torch.float64)
    for k, (x, y) in enumerate(micro_batches, start=1):
        optimizer.zero_grad()
        last = k == len(micro_batches)
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
        total += loss.detach()
    optimizer.step()
    return mean_of(total)


def adds_without_dividing(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches, parts=1)
    optimizer.step()
    return mean_of(total / len(micro_batches))


def divides_twice(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches, parts=len(micro_batches) ** 2)
    optimizer.step()
    return mean_of(total * len(micro_batches))


def scaled(model, optimizer, loss_fn, micro_batches, factor):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    for p in model.parameters():
        p.grad *= factor
    optimizer.step()
    return mean_of(total)


def divides_by_ranks_too(model, optimizer, loss_fn, micro_batches):
    return scaled(model, optimizer, loss_fn, micro_batches, 1 / dist.get_world_size())


def takes_ddp_for_a_sum(model, optimizer, loss_fn, micro_batches):
    return scaled(model, optimizer, loss_fn, micro_batches, dist.get_world_size())


def half_of_it(model, optimizer, loss_fn, micro_batches):
    return scaled(model, optimizer, loss_fn, micro_batches, 0.5)


def averages_weights(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    with model.no_sync():
        for x, y in micro_batches:
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
            total += loss.detach()
    optimizer.step()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    parts = flat.div_(dist.get_world_size()).split([p.numel() for p in model.parameters()])
    with torch.no_grad():
        for p, part in zip(model.parameters(), parts, strict=True):
            p.copy_(part.view_as(p))
    return mean_of(total)


def own_loss(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    return total


def loss_of_all_ranks_added(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    dist.all_reduce(total)
    return total


def loss_of_all_parts_added(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    return mean_of(total * len(micro_batches))


def loss_divided_again(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    return mean_of(total / len(micro_batches))


def loss_averaged_twice(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    return total / dist.get_world_size()


def another_loss(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    total = gradients(model, loss_fn, micro_batches)
    optimizer.step()
    return mean_of(total) + 1


WRONG = [
    (NAME, "never_met", quiet_for_all),
    (NAME, "part_met", sends_with_the_first),
    (NAME, "old_gradients", never_empties),
    (NAME, "newest", empties_too_often),
    (NAME, "not_divided", adds_without_dividing),
    (NAME, "divided_twice", divides_twice),
    (NAME, "by_ranks", divides_by_ranks_too),
    (NAME, "sum_of_ranks", takes_ddp_for_a_sum),
    (NAME, "gradient", half_of_it),
    (NAME, "drift", averages_weights),
    (NAME, "own_loss", own_loss),
    (NAME, "loss_sum", loss_of_all_ranks_added),
    (NAME, "loss_not_divided", loss_of_all_parts_added),
    (NAME, "loss_twice", loss_divided_again),
    (NAME, "loss_by_ranks", loss_averaged_twice),
    (NAME, "loss", another_loss),
]
