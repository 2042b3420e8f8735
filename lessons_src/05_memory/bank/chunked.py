"""More answers to `chunked_loss`, for the tests alone."""

import math

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as torchs

from ..exercises.chunked import chunked_loss


def count(labels):
    return (labels != -100).sum()


def chunks(hidden, weight, labels, chunk, reduction="sum"):
    def one(rows, targets):
        return F.cross_entropy(rows @ weight.T, targets, reduction=reduction)

    pairs = zip(hidden.split(chunk), labels.split(chunk), strict=True)
    return [torchs(one, rows, targets, use_reentrant=False) for rows, targets in pairs]


def nanmean_of_the_chunks_means(*given):
    return torch.stack(chunks(*given, "mean")).nanmean()


def not_recomputed(hidden, weight, labels, chunk):
    total = hidden.sum() * 0
    for rows, targets in zip(hidden.split(chunk), labels.split(chunk), strict=True):
        total = total + F.cross_entropy(rows @ weight.T, targets, reduction="sum")
    return total / count(labels)


def first_chunk_waits(hidden, weight, labels, chunk):
    first = F.cross_entropy(hidden[:chunk] @ weight.T, labels[:chunk], reduction="sum")
    return sum(chunks(hidden[chunk:], weight, labels[chunk:], chunk), first) / count(labels)


def goes_back(*given):
    loss = chunked_loss(*given)
    loss.backward(retain_graph=True)
    return loss


def goes_back_and_lets_go(*given):
    loss = chunked_loss(*given)
    loss.backward()
    return loss


def labels_of_the_loop(hidden, weight, labels, chunk):
    total = 0
    for i in range(0, len(hidden), chunk):

        def summed(rows, weight):
            targets = labels[i : i + chunk]  # noqa: B023 (the mistake)
            return F.cross_entropy(rows @ weight.T, targets, reduction="sum")

        total = total + torchs(summed, hidden[i : i + chunk], weight, use_reentrant=False)
    return total / count(labels)


def all_of_the_loop(hidden, weight, labels, chunk):
    total = 0
    for i in range(0, len(hidden), chunk):

        def summed(hidden, weight):
            part = slice(i, i + chunk)  # noqa: B023 (the mistake)
            return F.cross_entropy(hidden[part] @ weight.T, labels[part], reduction="sum")

        total = total + torchs(summed, hidden, weight, use_reentrant=False)
    return total / count(labels)


def bound_in_time(hidden, weight, labels, chunk):
    total = 0
    for i in range(0, len(hidden), chunk):

        def summed(rows, weight, targets=labels[i : i + chunk]):
            return F.cross_entropy(rows @ weight.T, targets, reduction="sum")

        total = total + torchs(summed, hidden[i : i + chunk], weight, use_reentrant=False)
    return total / count(labels)


def without_the_ignored(hidden, weight, labels, chunk):
    """Rows without a label are left out before anything is computed."""
    rows, targets = hidden[labels != -100], labels[labels != -100]
    return sum(chunks(rows, weight, targets, chunk)) / len(targets)


def weighed_means(hidden, weight, labels, chunk):
    counts = [count(part) for part in labels.split(chunk)]
    parts = zip(chunks(hidden, weight, labels, chunk), counts, strict=True)
    return sum(part / n.clamp(min=1) * n for part, n in parts) / sum(counts)


class Eager(torch.autograd.Function):
    """Gradients are computed in forward already, chunk by chunk, as fused kernels do."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, chunk):
        total = hidden.new_zeros(())
        by_hidden, by_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
        for start in range(0, len(labels), chunk):
            part = slice(start, start + chunk)
            logits, kept = hidden[part] @ weight.T, labels[part] != -100
            targets = labels[part].where(kept, torch.tensor(0))
            log = logits.log_softmax(1)
            total -= (log.gather(1, targets[:, None]).flatten() * kept).sum()
            gradient = (log.exp() - F.one_hot(targets, len(weight))) * kept[:, None] / count(labels)
            by_hidden[part], by_weight = gradient @ weight, by_weight + gradient.T @ hidden[part]
        ctx.save_for_backward(by_hidden, by_weight)
        return total / count(labels)

    @staticmethod
    def backward(ctx, gradient):
        by_hidden, by_weight = ctx.saved_tensors
        return gradient * by_hidden, gradient * by_weight, None, None


ALSO_WRONG = [
    ("mean_of_means", nanmean_of_the_chunks_means),
    ("value_off", lambda *given: chunked_loss(*given) / math.log(2)),
    ("no_tensor", lambda *given: chunked_loss(*given).item()),
    ("detached", lambda *given: chunked_loss(*given).detach()),
    ("no_gradient", lambda hidden, weight, *given: chunked_loss(hidden, weight.detach(), *given)),
    ("many", lambda *given: torch.cat(chunks(*given, "none"))),
    ("gradient", goes_back),
    ("let_go", goes_back_and_lets_go),
    ("second_call", labels_of_the_loop),
    ("second_call", all_of_the_loop),
    ("keeps_all", not_recomputed),
    ("keeps_all", first_chunk_waits),
    ("pieces", lambda *given: chunked_loss(*given[:3], -(-len(given[2]) // given[3]))),
    ("whole_logits", lambda *given: chunked_loss(*given[:3], len(given[2]))),
]
ALSO_RIGHT = [bound_in_time, without_the_ignored, weighed_means, Eager.apply]
