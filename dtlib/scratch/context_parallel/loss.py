"""The mean loss of a sequence that no rank has whole: sum and count are added up apart.

Labels that do not count (padding, a prompt) lie where they lie: some ranks have more of them than
others. So the mean of the ranks' means is wrong; the sum of all losses is divided by the number of
all labels that count. A rank's gradient comes from its own term of that sum.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from dtlib.scratch.tensor_parallel.parameters import Group


class Loss(NamedTuple):
    """A loss in nats: this rank's term, to call `backward` on, and the mean of all positions.

    The terms of all ranks add up to the mean, which is the same on all of them and has no gradient.
    """

    term: Tensor
    mean: Tensor


def mean_loss(total: Tensor, labels: Tensor, group: Group = None) -> Loss:
    """The mean over the labels that count, on all ranks: one message of two numbers.

    Parameters
    ----------
    total
        The summed loss of this rank's positions, 0-d, in nats.
    labels
        This rank's, [b, s/N]; negative ones do not count.
    group
        The ranks that hold the sequence; None is all of them.
    """
    both = torch.stack([total.detach(), (labels >= 0).sum().to(total.dtype)])
    dist.all_reduce(both, group=group)
    everything, count = both[0], both[1].clamp(min=1)
    return Loss(total / count, everything / count)
