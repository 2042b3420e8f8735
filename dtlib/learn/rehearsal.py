"""Rehearse a GPU configuration of Accelerate on a laptop's ranks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dtlib import ops

if TYPE_CHECKING:
    from accelerate import Accelerator


def accelerator(gradient_accumulation_steps: int = 1) -> Accelerator:
    """Return an `Accelerator` that does what its configuration says, on ranks without a GPU too.

    With GPUs, or with one process, it is `Accelerator(gradient_accumulation_steps=…)` and nothing
    else. Accelerate (1.15) turns FSDP on only for device types that it lists, among which CPU
    ranks are not: it says nothing and trains with DDP. DeepSpeed it starts there with no backend,
    and then believes that there is one process. Here such ranks get gloo, and FSDP if that is what
    `accelerate launch` was told.

    Parameters
    ----------
    gradient_accumulation_steps
        Micro-batches in one step of the optimizer.
    """
    import torch
    from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
    from accelerate.utils import DistributedType, InitProcessGroupKwargs

    on_cpu_ranks = "RANK" in os.environ and not torch.cuda.is_available()
    if not on_cpu_ranks:
        return Accelerator(gradient_accumulation_steps=gradient_accumulation_steps)
    if _asked_for("DEEPSPEED"):
        ops.deepspeed("cpu")  # which keeps it from compiling what it does not need here
    result = Accelerator(
        cpu=not _asked_for("DEEPSPEED"),
        gradient_accumulation_steps=gradient_accumulation_steps,
        kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")],
    )
    if _asked_for("FSDP"):
        for state in (result.state._shared_state, PartialState._shared_state):
            state["distributed_type"] = DistributedType.FSDP
        result.state.fsdp_plugin = FullyShardedDataParallelPlugin()
    return result


def _asked_for(what: str) -> bool:
    """Whether `accelerate launch` was told to use it; that is how it hands a configuration on."""
    return os.environ.get(f"ACCELERATE_USE_{what}", "").lower() == "true"
