"""More answers to `vocabulary_loss`, for the tests alone."""

import torch
import torch.distributed as dist
from torch.nn import functional as F

from ..exercises.loss import COLUMN, RETURN, STACK


def gathers_the_logits(logits, labels, first):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, logits)
    return F.cross_entropy(torch.cat(everybody, dim=1), labels, reduction="none")


def gathers_padded(logits, labels, first):
    n, most = dist.get_world_size(), torch.tensor(logits.shape[1])
    dist.all_reduce(most, dist.ReduceOp.MAX)
    padded = F.pad(logits, (0, int(most) - logits.shape[1]), value=-1e9)
    parts = [torch.empty_like(padded) for _ in range(n)]
    dist.all_gather(parts, padded.contiguous())
    whole = torch.cat([part[:, part[0] > -1e9 + 2000] for part in parts], dim=1)
    return F.cross_entropy(whole, labels, reduction="none")


def gathers_three(logits, labels, first):
    """Each rank's maximum, sum and label's logit: right, and more than an all-reduce sends."""
    top = logits.amax(1)
    words = torch.arange(first, first + logits.shape[1])
    target = torch.where(labels[:, None] == words, logits, 0).sum(1)
    own = torch.stack([top, (logits - top[:, None]).exp().sum(1), target])
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    tops, totals, targets = torch.stack(parts).unbind(1)
    top = tops.amax(0)
    return top + (totals * (tops - top).exp()).sum(0).log() - targets.sum(0)


def two_sums(logits, labels, first):
    """Each sum in a message of its own, and the maximum forgotten at the end."""
    top = logits.amax(1)
    dist.all_reduce(top, dist.ReduceOp.MAX)
    words = torch.arange(first, first + logits.shape[1])
    target = torch.where(labels[:, None] == words, logits, 0).sum(1)
    total = (logits - top[:, None]).exp().sum(1)
    dist.all_reduce(total)
    dist.all_reduce(target)
    return total.log() - target


def two_sums_of_own_maximum(logits, labels, first):
    shifted = logits - logits.amax(1, keepdim=True)
    words = torch.arange(first, first + logits.shape[1])
    target = torch.where(labels[:, None] == words, shifted, 0).sum(1)
    total = shifted.exp().sum(1)
    dist.all_reduce(total)
    dist.all_reduce(target)
    return total.log() - target


def no_maximum(logits, labels, first):
    words = torch.arange(first, first + logits.shape[1])
    target = torch.where(labels[:, None] == words, logits, 0).sum(1)
    sums = torch.stack([logits.exp().sum(1), target])
    dist.all_reduce(sums)
    return sums[0].log() - sums[1]


# Right.
def in_three_messages(logits, labels, first):
    top = logits.amax(1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    shifted = logits - top.unsqueeze(1)
    total = shifted.exp().sum(1)
    dist.all_reduce(total)
    words = torch.arange(first, first + logits.shape[1])
    target = (shifted * (words == labels[:, None])).sum(1)
    dist.all_reduce(target)
    return total.log() - target


def by_logsumexp(logits, labels, first):
    """The sum over ranks of exp(logsumexp - top)."""
    mine = logits.logsumexp(1)
    top = mine.clone()
    dist.all_reduce(top, dist.ReduceOp.MAX)
    both = torch.stack([(mine - top).exp(), torch.zeros_like(mine)])
    for k, label in enumerate(labels.tolist()):
        if first <= label < first + logits.shape[1]:
            both[1, k] = logits[k, label - first]
    dist.all_reduce(both)
    return both[0].log() + top - both[1]


ALSO_WRONG = [
    ("gathers", gathers_padded),
    ("gathers", gathers_three),
    ("gathers", {STACK: "torch.stack([total, target, top])"}),
    ("top_forgotten", two_sums),
    ("own_max", two_sums_of_own_maximum),
    ("overflow", no_maximum),
    ("in_place", {f"return {RETURN}": "pass"}),
    ("changed", {RETURN: f"{RETURN} + 0 * logits.zero_().sum()"}),
    ("sign", {RETURN: f"-({RETURN})"}),
    ("top_forgotten", {RETURN: "sums[0].log() - sums[1]"}),
    ("averaged", {RETURN: f"({RETURN}).sum() / len(labels)"}),
    ("first_forgotten", {COLUMN: "labels.remainder(logits.shape[1])"}),
    ("mean", {RETURN: "(sums[0] / dist.get_world_size()).log() + top "
                      "- sums[1] / dist.get_world_size()"}),
    ("value", lambda logits, labels, first: torch.zeros(len(labels))),
    ("raised", lambda logits, labels, first: 1 / 0),
]  # fmt: skip
ALSO_RIGHT = [in_three_messages, by_logsumexp]
