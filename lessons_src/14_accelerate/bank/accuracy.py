"""Answers to lesson 14's `exact_accuracy` that its check must refuse, and others to accept."""

import torch


def hits_of(model, loader):
    model.eval()
    return [(model(x).argmax(1) == y) for x, y in loader]


def gathers_all_rows(accelerator, model, loader):
    return torch.cat([accelerator.gather(h) for h in hits_of(model, loader)]).float().mean().item()


def reduces_first(accelerator, model, loader):
    means = [accelerator.gather(h.float().mean()) for h in hits_of(model, loader)]
    return torch.cat([m.reshape(-1) for m in means]).mean().item()


def gathers_means_for_metrics(accelerator, model, loader):
    model.eval()
    means = []
    for x, y in loader:
        mean = (model(x).argmax(1) == y).float().mean()
        means.append(accelerator.gather_for_metrics(mean).reshape(-1))
    return torch.cat(means).mean().item()


def its_own_rows(accelerator, model, loader):
    return torch.cat(hits_of(model, loader)).float().mean().item()


def forgets_eval(accelerator, model, loader):
    hits = []
    for x, y in loader:
        hits.append(accelerator.gather_for_metrics(model(x).argmax(1) == y))
    return torch.cat(hits).float().mean().item()


def counts_hits(accelerator, model, loader):
    model.eval()
    hits = [accelerator.gather_for_metrics(model(x).argmax(1) == y) for x, y in loader]
    return torch.cat(hits).sum().item()


def by_padded_rows(accelerator, model, loader):
    model.eval()
    right = rows = 0
    for x, y in loader:
        right += accelerator.gather_for_metrics(model(x).argmax(1) == y).sum().item()
        rows += len(y) * accelerator.num_processes
    return right / rows


def more_than_all(accelerator, model, loader):
    right = sum(accelerator.gather(h).sum().item() for h in hits_of(model, loader))
    return right / len(loader.dataset)


# Right.
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


WRONG = [
    ("exact_accuracy", "padding", gathers_all_rows),
    ("exact_accuracy", "reduced_first", reduces_first),
    ("exact_accuracy", "local", its_own_rows),
    ("exact_accuracy", "train_mode", forgets_eval),
    ("exact_accuracy", "hits", counts_hits),
    ("exact_accuracy", "by_rows", by_padded_rows),
    ("exact_accuracy", "over_one", more_than_all),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("exact_accuracy", "reduced_first", gathers_means_for_metrics),
]

RIGHT = [
    ("exact_accuracy", by_sums),
    ("exact_accuracy", gathers_both),
]
