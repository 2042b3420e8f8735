"""Cross-entropy of logits that no rank has whole: three numbers per position are exchanged.

The loss of a position is log Σⱼ exp(xⱼ - m) - (x_target - m), where m is the largest logit. A rank
has V/N of the logits. So the ranks agree on m first, and then add up two numbers: the sum of
exponentials, and the target's logit, which only one rank has and for which the others add 0. Both
fit into one message. All-gathering the logits would send V numbers per position.

Backward sends nothing: the gradient of a rank's own logits is its own part of softmax - one-hot.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dtlib.scratch.tensor_parallel.parameters import Group
from dtlib.scratch.zero.clip import wide


class _VocabularyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, first: int, group: Group) -> Tensor:
        logits = logits.to(wide(logits.dtype))
        largest = logits.amax(-1)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group)
        shifted = logits - largest.unsqueeze(-1)
        row = labels - first
        theirs = (row < 0) | (row >= logits.shape[-1])
        row = row.masked_fill(theirs, 0).unsqueeze(-1)
        target = shifted.gather(-1, row).squeeze(-1).masked_fill(theirs, 0)
        exponentials = shifted.exp_()
        sums = torch.stack([exponentials.sum(-1), target])
        dist.all_reduce(sums, group=group)
        total, target = sums
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), row, theirs, labels < 0)
        return (total.log() - target).masked_fill(labels < 0, 0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        softmax, row, theirs, ignored = ctx.saved_tensors
        minus_one_hot = -(~theirs).to(softmax.dtype).unsqueeze(-1)
        own = softmax.scatter_add(-1, row, minus_one_hot)
        return own * gradient.masked_fill(ignored, 0).unsqueeze(-1), None, None, None


def vocabulary_cross_entropy(
    logits: Tensor, labels: Tensor, first: int, group: Group = None
) -> Tensor:
    """The loss of each position in nats, [b, s], in at least fp32, the same on all ranks.

    Parameters
    ----------
    logits
        This rank's columns, [b, s, V/N].
    labels
        [b, s], int64; the loss of a negative label is 0.
    first
        The token of this rank's first column.
    group
        The ranks that share the vocabulary, by default all.
    """
    loss: Tensor = _VocabularyCrossEntropy.apply(logits, labels, first, group)
    return loss
