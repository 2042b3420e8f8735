"""More answers to `vocabulary_loss`, for the tests alone."""

import torch
import torch.distributed as dist
from torch.nn import functional as F

from ..exercises.loss import COLUMN, RETURN


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
