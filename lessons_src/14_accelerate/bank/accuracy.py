"""More answers to `exact_accuracy`, for the tests alone."""

import numpy as np
import torch

from dtlib.learn.solutions import altered

from ..exercises.accuracy import exact_accuracy


def by_sums(accelerator, model, loader):
    model.eval()
    right = rows = 0
    for x, y in loader:
        hits = accelerator.gather_for_metrics(model(x).argmax(1) == y)
        right, rows = right + int(hits.sum()), rows + len(hits)
    return right / rows


def gathers_both(accelerator, model, loader):
    model.eval()
    pairs = [accelerator.gather_for_metrics((model(x).argmax(1), y)) for x, y in loader]
    guesses, labels = (torch.cat(column) for column in zip(*pairs, strict=True))
    return (guesses == labels).double().mean()


def gathers_at_the_end(accelerator, model, loader):
    model.eval()
    hits = torch.cat([model(x).argmax(1) == y for x, y in loader])
    return accelerator.gather_for_metrics(hits).float().mean().item()


def sums_everything(accelerator, model, loader):
    model.eval()
    pairs = [((model(x).argmax(1) == y).sum(), torch.tensor(len(y))) for x, y in loader]
    hits, rows = (accelerator.reduce(sum(column), "sum") for column in zip(*pairs, strict=True))
    return (hits / rows).item()


def on_every_rank(accelerator, model, loader):
    x, y = loader.dataset.tensors
    return (model.eval()(x).argmax(1) == y).float().mean().item()


def mean_of_rounds(accelerator, model, loader):
    model.eval()
    rounds = [accelerator.gather_for_metrics(model(x).argmax(1) == y) for x, y in loader]
    return torch.stack([hits.float().mean() for hits in rounds]).mean()


def sum_of_rounds(accelerator, model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += accelerator.gather_for_metrics((model(x).argmax(1) == y).float()).mean()
    return total / len(loader)


MEANS = {"(right)": "(right.float().mean()).reshape(-1)"}
ALSO_WRONG = [
    ("reduced_first", altered(exact_accuracy, MEANS)),
    ("reduced_first", mean_of_rounds),
    ("reduced_first", sum_of_rounds),
    ("value", {"== y": "<= y"}),
    ("value", {"== y": ">= y"}),
    ("value", {".mean()": ".median()"}),
    ("errors", {"== y": "!= y"}),
    ("rounded", lambda *given: round(exact_accuracy(*given), 2)),
    ("rounded", lambda *given: round(exact_accuracy(*given), 4)),
    ("percent", lambda *given: 100 * exact_accuracy(*given)),
    ("padding", gathers_at_the_end),
    ("padding", sums_everything),
    ("local", lambda *given: exact_accuracy(*given) + given[0].process_index),
]
ALSO_RIGHT = [
    by_sums,
    gathers_both,
    on_every_rank,
    lambda *given: np.float32(exact_accuracy(*given)),
]
