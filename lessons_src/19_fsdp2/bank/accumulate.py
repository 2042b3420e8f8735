"""More answers to `accumulate`, for the tests alone."""

import torch
import torch.distributed as dist

from ..exercises.accumulate import COUNT, LOSS, REDUCE, SYNC, accumulate


def root_alone(model, parts):
    """The flag of the root's own parameters, not of the units in it."""
    count = torch.tensor(float(sum(len(y) for x, y in parts)))
    dist.all_reduce(count)
    for i, (x, y) in enumerate(parts):
        model.set_requires_gradient_sync(i == len(parts) - 1, recurse=False)
        (model(x, y) * dist.get_world_size() / count).backward()


def averages_again(model, parts):
    accumulate(model, parts)
    for p in model.parameters():
        p.grad /= dist.get_world_size()


def sums_shards(model, parts):
    """All-reduces shards, which are different parts."""
    accumulate(model, parts)
    for p in model.parameters():
        dist.all_reduce(p.grad.to_local())


def never_on_again(model, parts):
    for i in range(len(parts)):
        if i < len(parts) - 1:
            model.set_requires_gradient_sync(False)
    for x, y in parts:
        (model(x, y) / len(y)).backward()


# Right.
def scales_afterwards(model, parts):
    """The sums, which FSDP2 averages over the ranks, are divided at the end."""
    *early, last = parts
    model.set_requires_gradient_sync(False)
    for x, y in early:
        model(x, y).backward()
    model.set_requires_gradient_sync(True)
    model(*last).backward()
    count = torch.tensor([sum(y.numel() for _, y in parts)])
    dist.all_reduce(count)
    for p in model.parameters():
        p.grad.mul_(dist.get_world_size() / count.item())


def by_the_modules(model, parts):
    n, count = dist.get_world_size(), torch.tensor(sum(len(y) for x, y in parts), dtype=torch.long)
    dist.all_reduce(count, op=dist.ReduceOp.SUM)
    while parts:
        x, y = parts[0]
        parts = parts[1:]
        for unit in (model, model.first, model.second):
            unit.set_requires_gradient_sync(not parts, recurse=False)
        (n * (model(x, y) / count)).backward()


def one_backward(model, parts):
    n, count = dist.get_world_size(), torch.tensor(float(sum(len(y) for x, y in parts)))
    dist.all_reduce(count)
    (sum(model(x, y) for x, y in parts) * n / count).backward()


def one_forward(model, parts):
    """All micro-batches as one."""
    accumulate(model, [tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))])


def flushes(model, parts):
    """A backward of nothing that reduces what has waited."""
    model.set_requires_gradient_sync(False)
    n, count = dist.get_world_size(), torch.tensor(float(sum(len(y) for x, y in parts)))
    dist.all_reduce(count)
    for x, y in parts:
        (model(x, y) * n / count).backward()
    model.set_requires_gradient_sync(True)
    (0 * model(*parts[-1])).backward()


def parts_of_all_ranks(model, parts):
    n, count = dist.get_world_size(), torch.tensor(len(parts))
    dist.all_reduce(count)
    for i, (x, y) in enumerate(parts):
        model.set_requires_gradient_sync(i == len(parts) - 1)
        (model(x, y) * n / count).backward()


def means_with_a_count(model, parts):
    """A mean of means, and an all-reduce for nothing."""
    dist.all_reduce(torch.tensor(float(len(parts))))
    for i, (x, y) in enumerate(parts):
        model.set_requires_gradient_sync(i == len(parts) - 1)
        (model(x, y) / len(y) / len(parts)).backward()


ALSO_WRONG = [
    ("forwards", one_forward),
    ("forwards", flushes),
    ("parts_counted", parts_of_all_ranks),
    ("parts_counted", {LOSS: "loss / len(parts) / n"}),
    ("mean_of_means", means_with_a_count),
    ("mean_of_means", {REDUCE: "pass", LOSS: "loss / y.numel() / len(parts)"}),
    ("one_backward", one_backward),
    ("each_time", {SYNC: "pass"}),
    ("each_time", {SYNC: "model.set_requires_gradient_sync(True)"}),
    ("too_often", root_alone),
    ("not_reduced", {SYNC: "model.set_requires_gradient_sync(False)"}),
    ("not_reduced", never_on_again),
    ("not_reduced", lambda model, parts: [].sort()),
    ("not_times_n", averages_again),
    ("mismatch", sums_shards),
    ("own_count_times_n", {REDUCE: "count * n"}),
    ("unrecognised", {LOSS: "loss * n / (count + 1)"}),
    ("unrecognised", {COUNT: "2 * len(parts) + 1"}),
    ("raised", {LOSS: "model.loss * n / count"}),
]
ALSO_RIGHT = [scales_afterwards, by_the_modules]
