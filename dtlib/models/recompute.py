"""Activation checkpointing: backward recomputes what forward did not keep.

T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

# What selective checkpointing keeps, since it is expensive to compute: products and attention. The
# rest (norms, GELU, residual additions, dropout) is cheap, and bound by memory traffic. Every
# linear layer of a block is an addmm. A plain mm would come from DeepSpeed's stage 3, which then
# adds the bias in place to the kept result, unseen by torch: there, products are computed again.
DEAR = frozenset(
    getattr(torch.ops.aten, name).default
    for name in (
        "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math_for_mps",
    )
    if hasattr(torch.ops.aten, name)
)  # fmt: skip


def recomputed(kind: str, compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return compute(x); backward sees the same bits, recomputed from what was kept.

    Parameters
    ----------
    kind
        "none" keeps all that autograd saves, "full" only x, "selective" x and what is in `DEAR`.
    """
    if kind == "none" or not torch.is_grad_enabled():
        return compute(x)
    more: dict[str, Any] = {"context_fn": _selective} if kind == "selective" else {}
    return checkpoint.checkpoint(compute, x, use_reentrant=False, **more)


def _keep(_: Any, operation: Any, *args: Any, **kwargs: Any) -> checkpoint.CheckpointPolicy:
    policy = checkpoint.CheckpointPolicy
    return policy.MUST_SAVE if operation in DEAR else policy.PREFER_RECOMPUTE


def _selective() -> tuple[Any, Any]:
    forward, backward = checkpoint.create_selective_checkpoint_contexts(_keep)
    return forward, _Again(backward)


class _Again(TorchDispatchMode):
    """Take what is in `DEAR` from torch, and compute everything else.

    Torch's own mode refuses every operation that was not in forward, such as those with which ZeRO
    gathers a block's weights again.
    """

    def __init__(self, kept: TorchDispatchMode) -> None:
        super().__init__()
        self.kept = kept

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in DEAR:
            return self.kept.__torch_dispatch__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))
