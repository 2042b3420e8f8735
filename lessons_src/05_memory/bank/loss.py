"""Answers to lesson 05's `chunked_loss` that its check must refuse, and others to accept.

Each wrong answer stands under the key of the sentence that it must get.
"""

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as torchs


def chunks(hidden, weight, labels, chunk, reduction):
    def one(rows, targets):
        return F.cross_entropy(rows @ weight.T, targets, reduction=reduction)

    pairs = zip(hidden.split(chunk), labels.split(chunk), strict=True)
    return [torchs(one, rows, targets, use_reentrant=False) for rows, targets in pairs]


def mean_of_the_chunks_means(hidden, weight, labels, chunk):
    return torch.stack(chunks(hidden, weight, labels, chunk, "mean")).mean()


def nanmean_of_the_chunks_means(hidden, weight, labels, chunk):
    return torch.stack(chunks(hidden, weight, labels, chunk, "mean")).nanmean()


def means_weighed_by_rows(hidden, weight, labels, chunk):
    means = chunks(hidden, weight, labels, chunk, "mean")
    sizes = [len(part) for part in labels.split(chunk)]
    return sum(m * n for m, n in zip(means, sizes, strict=True)) / len(labels)


def means_weighed_by_counts(hidden, weight, labels, chunk):
    means = chunks(hidden, weight, labels, chunk, "mean")
    counts = [(part != -100).sum() for part in labels.split(chunk)]
    return sum(m * n for m, n in zip(means, counts, strict=True)) / sum(counts)


def sum_alone(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "sum"))


def over_all_positions(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "sum")) / len(labels)


def over_the_chunks(hidden, weight, labels, chunk):
    parts = chunks(hidden, weight, labels, chunk, "sum")
    return sum(parts) / len(parts)


def adds_means(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "mean"))


def full_chunks_only(hidden, weight, labels, chunk):
    total = hidden.sum() * 0
    for k in range(len(labels) // chunk):
        part = slice(k * chunk, (k + 1) * chunk)
        total = total + sum(chunks(hidden[part], weight, labels[part], chunk, "sum"))
    return total / (labels != -100).sum()


def overwrites(hidden, weight, labels, chunk):
    for part in chunks(hidden, weight, labels, chunk, "mean"):
        total = part
    return total


def item(hidden, weight, labels, chunk):
    total = sum(part.item() for part in chunks(hidden, weight, labels, chunk, "sum"))
    return total / int((labels != -100).sum())


def without_a_graph(hidden, weight, labels, chunk):
    with torch.no_grad():
        return sum(chunks(hidden, weight, labels, chunk, "sum")) / (labels != -100).sum()


def frozen_weight(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight.detach(), labels, chunk, "sum")) / (labels != -100).sum()


def not_recomputed(hidden, weight, labels, chunk):
    total = hidden.sum() * 0
    for rows, targets in zip(hidden.split(chunk), labels.split(chunk), strict=True):
        total = total + F.cross_entropy(rows @ weight.T, targets, reduction="sum")
    return total / (labels != -100).sum()


def logits_first(hidden, weight, labels, chunk):
    logits = hidden @ weight.T
    total = hidden.sum() * 0
    for rows, targets in zip(logits.split(chunk), labels.split(chunk), strict=True):
        total = total + F.cross_entropy(rows, targets, reduction="sum")
    return total / (labels != -100).sum()


def one_loss_a_position(hidden, weight, labels, chunk):
    return torch.cat(chunks(hidden, weight, labels, chunk, "none"))


def backward_inside(hidden, weight, labels, chunk):
    loss = sum(chunks(hidden, weight, labels, chunk, "sum")) / (labels != -100).sum()
    loss.backward(retain_graph=True)
    return loss


def in_bits(hidden, weight, labels, chunk):
    total = sum(chunks(hidden, weight, labels, chunk, "sum"))
    return total / (labels != -100).sum() / torch.log(torch.tensor(2.0))


def weighed_means(hidden, weight, labels, chunk):
    counts = [(part != -100).sum() for part in labels.split(chunk)]
    parts = chunks(hidden, weight, labels, chunk, "sum")
    means = [p / n.clamp(min=1) for p, n in zip(parts, counts, strict=True)]
    return sum(m * n for m, n in zip(means, counts, strict=True)) / sum(counts)


class Eager(torch.autograd.Function):
    """Gradients are computed in forward already, chunk by chunk, as fused kernels do."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, chunk):
        total, count = hidden.new_zeros(()), (labels != -100).sum()
        by_hidden, by_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
        for start in range(0, len(labels), chunk):
            part = slice(start, start + chunk)
            logits, kept = hidden[part] @ weight.T, labels[part] != -100
            targets = labels[part].where(kept, torch.tensor(0))
            log = logits.log_softmax(1)
            total -= (log.gather(1, targets[:, None]).flatten() * kept).sum()
            gradient = (log.exp() - F.one_hot(targets, len(weight))) * kept[:, None] / count
            by_hidden[part], by_weight = gradient @ weight, by_weight + gradient.T @ hidden[part]
        ctx.save_for_backward(by_hidden, by_weight)
        return total / count

    @staticmethod
    def backward(ctx, gradient):
        by_hidden, by_weight = ctx.saved_tensors
        return gradient * by_hidden, gradient * by_weight, None, None


def gradients_in_forward(hidden, weight, labels, chunk):
    return Eager.apply(hidden, weight, labels, chunk)


def first_chunk_waits(hidden, weight, labels, chunk):
    first = F.cross_entropy(hidden[:chunk] @ weight.T, labels[:chunk], reduction="sum")
    rest = chunks(hidden[chunk:], weight, labels[chunk:], chunk, "sum")
    return sum(rest, first) / (labels != -100).sum()


# Right.
def without_the_ignored(hidden, weight, labels, chunk):
    """Rows without a label are left out before anything is computed."""
    rows, targets = hidden[labels != -100], labels[labels != -100]
    return sum(chunks(rows, weight, targets, chunk, "sum")) / len(targets)


WRONG = [
    ("chunked_loss", "mean_of_means", mean_of_the_chunks_means),
    ("chunked_loss", "by_rows", means_weighed_by_rows),
    ("chunked_loss", "nan", means_weighed_by_counts),
    ("chunked_loss", "sum", sum_alone),
    ("chunked_loss", "all_positions", over_all_positions),
    ("chunked_loss", "by_chunks", over_the_chunks),
    ("chunked_loss", "sum_of_means", adds_means),
    ("chunked_loss", "last_missing", full_chunks_only),
    ("chunked_loss", "only_last", overwrites),
    ("chunked_loss", "no_tensor", item),
    ("chunked_loss", "detached", without_a_graph),
    ("chunked_loss", "no_gradient", frozen_weight),
    ("chunked_loss", "keeps_all", not_recomputed),
    ("chunked_loss", "whole_logits", logits_first),
    ("chunked_loss", "many", one_loss_a_position),
    ("chunked_loss", "gradient", backward_inside),
    ("chunked_loss", "value_off", in_bits),
]

ALSO_WRONG = [
    ("chunked_loss", "keeps_all", first_chunk_waits),
    ("chunked_loss", "mean_of_means", nanmean_of_the_chunks_means),
]

RIGHT = [
    ("chunked_loss", without_the_ignored),
    ("chunked_loss", weighed_means),
    ("chunked_loss", gradients_in_forward),
]
