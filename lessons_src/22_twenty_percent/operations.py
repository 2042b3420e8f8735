"""How many operations a call issues that compute something, whether it is compiled or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

OPERATIONS = ("aten::", "mkldnn::", "mkl::")
IDLE = {
    "t", "transpose", "view", "expand", "as_strided", "detach", "flatten", "reshape", "empty",
    "empty_like", "empty_strided", "to", "result_type", "resolve_conj", "item",
}  # fmt: skip
"""Operations that only describe a tensor anew, or reserve memory."""


def count(call: Callable[[], Any]) -> int:
    """Count the operations of a call; those that another operation calls are part of it.

    A kernel that `torch.compile` generated for a CPU counts as one operation. It is seen only if
    `torch._inductor.config.cpp.enable_kernel_profile` was on when it was compiled.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        call()
    return sum(
        _computes(event.name) and not _inside(event) for event in seen.events()
    )  # a backward pass runs on a thread of its own, and is seen as well


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
