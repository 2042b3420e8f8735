"""More answers to `accumulate`, for the tests alone."""

import torch

from dtlib.learn.solutions import altered

from ..exercises.accumulate import ADD, accumulate


def by(words):
    return altered(accumulate, words)


def report(number):
    """The right gradient, and another loss: of a micro-batch's mean `loss.item() * count / n`."""
    return by({ADD: f"n = len(y); mean = loss.item() * count / n; total = {number}"})


def steps_as_well(model, loss_fn, micro_batches):
    total = accumulate(model, loss_fn, micro_batches)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return total


def glued_together(model, loss_fn, micro_batches):
    xs, ys = zip(*micro_batches, strict=True)
    loss = loss_fn(model(torch.cat(xs)), torch.cat(ys))
    loss.backward()
    return loss.item()


# Right.
def divides_afterwards(model, loss_fn, micro_batches):
    count, total = sum(len(y) for _, y in micro_batches), 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * len(y)
        loss.backward()
        total += loss.item()
    for p in model.parameters():
        p.grad /= count
    return total / count


def by_autograd(model, loss_fn, micro_batches):
    count, total = sum(len(y) for _, y in micro_batches), 0.0
    weights = list(model.parameters())
    for p in weights:
        p.grad = torch.zeros_like(p)
    for x, y in micro_batches:
        loss = loss_fn(model(x), y)
        for p, g in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            p.grad += g * (len(y) / count)
        total += loss.detach() * len(y)
    return total / count


one_graph = by({"loss.backward()\n        total += loss.item()": "total = total + loss",
                "return total": "total.backward()\n    return total.item()"})  # fmt: skip
ALSO_WRONG = [
    ("gradient", by({"for x, y in micro_batches": "for x, y in micro_batches[::2]"})),
    ("no_backward", by({"        loss.backward()\n": ""})),
    ("moved", steps_as_well),
    ("all_at_once", one_graph),
    ("all_at_once", glued_together),
    ("loss_mean_of_means", report("total + mean / len(micro_batches)")),
    ("loss_last_only", report("mean")),
    ("loss_sum", report("total + mean * n")),
    ("loss_other", report("max(total, mean)")),
    ("graph", by({"loss.item()": "loss"})),
    ("none", by({"return total": "total"})),
    ("many", by({"return total": "return torch.full((6,), total)"})),
    ("no_number", by({"return total": "return [total]"})),
]
ALSO_RIGHT = [divides_afterwards, by_autograd]
RARE = {"apart"}

CELL = """\
def accumulate(model, loss_fn, micro_batches):
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) {divided}
        loss.backward()
        total += loss.item()
    return total"""
LADDER = (
    CELL.format(divided="/ len(micro_batches)"),
    CELL.format(divided="* (1 / len(micro_batches))"),
)
