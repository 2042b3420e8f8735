"""Rehearse a GPU configuration of Accelerate on a laptop's ranks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dtlib.strategies import operators as ops

if TYPE_CHECKING:
    from accelerate import Accelerator, ParallelismConfig


def accelerator(
    gradient_accumulation_steps: int = 1, parallelism: ParallelismConfig | None = None
) -> Accelerator:
    """Return an `Accelerator` that does what its configuration says, even on ranks without a GPU.

    With ranks on GPUs, or without ranks, it is `Accelerator` with these two arguments.
    Accelerate (1.15) turns FSDP on only for the device types on its list, and CPUs are not on it.
    With `cpu=True` it trains with DDP and says nothing. Without `cpu=True`, on a machine that has
    no GPU, it finds no backend and believes that there is only one process, under DeepSpeed as
    well. Here such ranks get gloo, and FSDP if `accelerate launch` was told to use it.

    Parameters
    ----------
    gradient_accumulation_steps
        Micro-batches in one step of the optimizer.
    parallelism
        The sizes of the mesh, which only FSDP can have here. Accelerate refuses one on CPU ranks.

    Raises
    ------
    ValueError
        If the sizes do not multiply to the number of ranks.
    """
    from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
    from accelerate.utils import DistributedType, InitProcessGroupKwargs

    if not _on_cpu_ranks():
        return Accelerator(
            gradient_accumulation_steps=gradient_accumulation_steps, parallelism_config=parallelism
        )
    if _asked_for("DEEPSPEED"):
        ops.deepspeed("cpu")  # keeps DeepSpeed from compiling what is not needed here
    result = Accelerator(
        cpu=not _asked_for("DEEPSPEED"),
        gradient_accumulation_steps=gradient_accumulation_steps,
        kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")],
    )
    if _asked_for("FSDP"):
        for state in (result.state._shared_state, PartialState._shared_state):
            state["distributed_type"] = DistributedType.FSDP
        result.state.fsdp_plugin = FullyShardedDataParallelPlugin()
    if parallelism:  # what the constructor does on GPUs
        result.state.parallelism_config = parallelism
        parallelism._validate_accelerator(result)
        result.state.device_mesh = parallelism.get_device_mesh("cpu")
    return result


def leave(accelerator: Accelerator) -> None:
    """End a script's training: the last call on every rank.

    With ranks on GPUs it is `accelerator.end_training()`. A CPU rank of `accelerate launch` waits
    for the others and ends at once: with FSDP on gloo (torch 2.14), a rank that lets Python clear
    up aborts now and then, with "terminate called without an active exception".
    """
    if not _on_cpu_ranks():
        accelerator.end_training()
    elif "TORCHELASTIC_RUN_ID" in os.environ:
        accelerator.wait_for_everyone()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _on_cpu_ranks() -> bool:
    """Whether this rank has no GPU of its own: a machine may have fewer GPUs than ranks."""
    import torch
    import torch.distributed as dist

    if "RANK" not in os.environ:
        return False
    if dist.is_initialized():  # dtlib's ranks have met already, on the device that was asked for
        return "nccl" not in dist.get_backend()
    return torch.cuda.device_count() < int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _asked_for(what: str) -> bool:
    """Whether `accelerate launch` was told to use it, which it passes on in this variable."""
    return os.environ.get(f"ACCELERATE_USE_{what}", "").lower() == "true"
