"""How many operations a call issues that compute something, plain or compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

OPERATIONS = ("aten::", "mkldnn::", "mkl::")
IDLE = {
    "t", "transpose", "view", "expand", "as_strided", "detach", "flatten", "reshape", "empty",
    "empty_like", "empty_strided", "to", "result_type", "resolve_conj", "item",
    "_local_scalar_dense",
}  # fmt: skip
"""Operations that only describe a tensor anew, reserve memory or read a number."""


class _Issued(TorchDispatchMode):
    """Counts what PyTorch hands over to its kernels, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += _computes(func._schema.name) and not func.is_view
        return func(*args, **(kwargs or {}))


def count(call: Callable[[], Any]) -> int:
    """Count the operations of a call that is not compiled."""
    with _Issued() as issued:
        call()
    return issued.calls


def count_compiled(call: Callable[[], Any]) -> int:
    """Count the operations of a call that `torch.compile` made, as a profile shows them.

    A kernel that was generated counts as one operation. It is seen only if
    `torch._inductor.config.cpp.enable_kernel_profile` was on when it was compiled. What another
    operation calls is part of that operation.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        call()
    return sum(_computes(event.name) and not _inside(event) for event in seen.events())


def _is_operation(name: str) -> bool:
    return name.startswith(OPERATIONS) or "_cpp_fused_" in name


def _computes(name: str) -> bool:
    return _is_operation(name) and name.rpartition("::")[2] not in IDLE


def _inside(event: Any) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if _is_operation(parent.name):
            return True
        parent = parent.cpu_parent
    return False
