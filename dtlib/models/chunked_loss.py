"""Output layer and cross-entropy in one: the logits of all positions never exist at once.

Without it they exist three times in fp32 when backward begins, as log-probabilities and two
gradients: for GPT-2's vocabulary that is more than all of its activations. torch has had such a
function since 2.14, but this project also runs with older versions, and torch's function breaks
the graph that torch.compile makes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dtlib.sim import activations


def summed_loss(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """Return the summed cross-entropy in nats (0-d, at least fp32) of hidden @ weight.T.

    Parameters
    ----------
    hidden, weight
        [n, h] and [V, h]; under autocast both are cast to its type.
    labels
        [n], int64; negative labels do not count.
    """
    kind, dtype = hidden.device.type, hidden.dtype
    if torch.is_autocast_enabled(kind) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(kind)
    pieces = -(-labels.numel() * weight.shape[0] // activations.CHUNK)
    return _Chunked.apply(hidden.to(dtype), weight.to(dtype), labels, pieces)


class _Chunked(torch.autograd.Function):
    """A position's gradient depends only on its own logits: forward computes it while they exist.

    So nothing is computed twice, and backward only multiplies by the gradient of the sum.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, pieces: int) -> Tensor:
        wide = torch.promote_types(hidden.dtype, torch.float32)  # sums over V and over pieces
        loss = torch.zeros((), dtype=wide, device=hidden.device)
        weight_gradient = torch.zeros_like(weight, dtype=wide)
        gradients = []
        with torch.autocast(hidden.device.type, enabled=False):
            for x, label in zip(hidden.chunk(pieces), labels.chunk(pieces), strict=True):
                counts = (label >= 0).unsqueeze(1)
                index = label.clamp(min=0).unsqueeze(1)
                logits = (x @ weight.t()).to(wide)
                norm = logits.logsumexp(1, keepdim=True)
                loss += ((norm - logits.gather(1, index)) * counts).sum()
                # d loss / d logits: the probabilities, minus 1 at the label
                logits.sub_(norm).exp_()
                logits.scatter_add_(1, index, torch.full_like(norm, -1.0)).mul_(counts)
                gradient = logits.to(x.dtype)
                gradients.append(gradient @ weight)
                weight_gradient += gradient.t() @ x
                del logits, gradient  # or they are there beside the next chunk's
        ctx.save_for_backward(torch.cat(gradients), weight_gradient.to(weight.dtype))
        return loss

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden, weight = ctx.saved_tensors
        return hidden * outer[0].to(hidden.dtype), weight * outer[0].to(weight.dtype), None, None
