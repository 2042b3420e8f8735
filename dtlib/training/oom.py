"""Explain "out of memory" in a sentence: how much is missing, what holds the rest, what would fit.

On a GPU, torch raises an error of its own, whose text has all the numbers; on a CPU, it raises a
RuntimeError. The training loop doesn't deal with either: `start` does, when a rank ends with one.
https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtlib.config.values import HF
from dtlib.errors import BadInput, DtlibError
from dtlib.sim import shapes, states
from dtlib.sim.estimate import Setup
from dtlib.sim.fitting import SPARE, peak, ways

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.config.plan import BatchPlan
    from dtlib.ranks.dist import World

GIB = 2**30
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": GIB, "TiB": 2**40}
_SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB|TiB)"
_NUMBERS = {
    "wanted": rf"[Tt]ried to allocate {_SIZE}",
    "total": rf"total capacity of {_SIZE}",
    "free": rf"of which {_SIZE} is free",
    "in_use": rf"this process has {_SIZE} memory in use",
    "allocated": rf"{_SIZE} is allocated by PyTorch",
    "reserved": rf"{_SIZE} is reserved by PyTorch but unallocated",
}
OTHERS = 0.02  # a share of a device that is in use without being worth a sentence


class OutOfMemory(DtlibError):
    """A device had no room for what a run needs; the sentence says what would fit."""


@dataclass
class Numbers:
    """The numbers in torch's text, in bytes; None for those that it doesn't contain.

    Attributes
    ----------
    wanted, free, total
        What was asked for, what the device had left, and its capacity.
    in_use, allocated, reserved
        Of this process: in total; in tensors; kept by the allocator without a tensor in it.
    peak
        The most in tensors so far.
    """

    wanted: float | None = None
    total: float | None = None
    free: float | None = None
    in_use: float | None = None
    allocated: float | None = None
    reserved: float | None = None
    peak: float | None = None


def explained(
    error: BaseException,
    config: RunConfig,
    plan: BatchPlan,
    world: World,
    vocab_size: int | None = None,
) -> OutOfMemory:
    """Turn torch's out-of-memory error into a sentence with numbers and advice on what would fit.

    Parameters
    ----------
    error
        An error for which `is_out_of_memory` is true.
    config, plan, world
        The run's, and the world of the rank that met the error.
    vocab_size
        Entries of the vocabulary, if the data have been read.
    """
    found = numbers(str(error))
    if world.device.type == "cuda":
        import torch

        found.peak = torch.cuda.max_memory_allocated(world.device)
        found.total = found.total or torch.cuda.mem_get_info(world.device)[1]
    where = f"rank {world.rank} ran out of memory on {world.device}"
    return OutOfMemory(sentence(where, found, setup_of(config, plan, vocab_size)))


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error is torch's for a device (or a host) that is out of memory."""
    import torch

    words = ("DefaultCPUAllocator: can't allocate memory", "CUDA out of memory")
    return isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in words)


def numbers(text: str) -> Numbers:
    """Read the numbers from torch's text, which rounds them to two decimals."""
    found = Numbers()
    for name, pattern in _NUMBERS.items():
        hit = re.search(pattern, text)
        if hit:
            setattr(found, name, float(hit[1]) * UNITS[hit[2]])
    return found


def setup_of(config: RunConfig, plan: BatchPlan, vocab_size: int | None = None) -> Setup | None:
    """Describe a run for `dtlib.sim`; None if it doesn't know the model."""
    own_width = config.width not in (None, shapes.RESNET.get(config.model or ""))
    if config.model is None or own_width or config.lora:
        return None
    text, strategy = config.task == "text", states.ALIASES.get(config.strategy, config.strategy)
    with contextlib.suppress(BadInput):
        return Setup(
            model=_found(config.model), strategy=strategy, ranks=plan.world_size,
            micro_batch=plan.micro_batch, accumulation=plan.accumulation,
            precision=config.precision, optimizer=config.optimizer, norm=config.norm,
            max_length=config.max_length if text else None,
            vocab_size=(text and vocab_size) or shapes.GPT2_VOCABULARY,
            dropout=text and config.dropout > 0, loss="auto",
            checkpointing=config.activation_checkpointing,
            zero_stage=config.zero_stage if config.strategy == "offload" else None,
            mesh=config.mesh, shard_ranks=config.shard_ranks, cpu_offload=config.cpu_offload,
        )  # fmt: skip
    return None


def _found(model: str) -> str:
    """Return the model's name, and for one of transformers the folder that the name stands for."""
    if not model.startswith(HF):
        return model
    from dtlib.data.pretrained import folder_of

    return f"{HF}{folder_of(model)}"


def sentence(where: str, found: Numbers, setup: Setup | None) -> str:
    """Say how much is missing, what holds the rest, and what would fit.

    Parameters
    ----------
    where
        "rank 1 ran out of memory on cuda:1".
    found
        The numbers from torch's text.
    setup
        The run, for `dtlib.sim`; None if it doesn't know the model.
    """
    parts = [_missing(where, found), *_holders(found)]
    if setup is not None:
        parts += _advice(setup, found)
    return "; ".join(part for part in parts if part) + "."


def _missing(where: str, found: Numbers) -> str:
    words = where + (f" ({in_gib(found.total)})" if found.total else "")
    if found.wanted is None:
        return words
    if found.free is None:
        return f"{words}: it asked for {in_gib(found.wanted)} more"
    missing = max(0.0, found.wanted - found.free)
    return (
        f"{words}: it asked for {in_gib(found.wanted)} more and {in_gib(found.free)} is free, so"
        f" {in_gib(missing)} is missing"
    )


def _holders(found: Numbers) -> Iterator[str]:
    if found.allocated is not None:
        at_most = f", {in_gib(found.peak)} at the peak" if found.peak else ""
        rest = f", and {in_gib(found.reserved)} is reserved but unused" if found.reserved else ""
        yield f"{in_gib(found.allocated)} is in tensors{at_most}{rest}"
    if found.total and found.free is not None and found.in_use is not None:
        others = found.total - found.free - found.in_use
        if others > OTHERS * found.total:
            yield f"other processes hold {in_gib(others)} (`nvidia-smi` lists them)"
    if found.reserved and found.wanted and found.reserved > found.wanted:
        yield (
            "the reserved memory would be enough, but its pieces are too small: set"
            " PYTORCH_ALLOC_CONF=expandable_segments:True"
        )


def _advice(setup: Setup, found: Numbers) -> Iterator[str]:
    needed = peak(setup)
    yield f"`dtlib sim memory` predicts that this run needs {in_gib(needed)} per rank"
    if not found.total:
        return
    if needed <= found.total * (1 - SPARE):
        yield f"that fits in {in_gib(found.total)}, so look for what else uses the memory"
        return
    fitting = ways(setup, found.total)
    listed = [f"{way.flags} ({in_gib(way.peak)})" for way in fitting]
    none = "no smaller micro-batch and no strategy fits: use more ranks, or a smaller model"
    yield f"what would fit: {' or '.join(listed)}" if listed else none


def in_gib(size: float | None) -> str:
    """Write a number of bytes in GiB, a small one in MiB."""
    size = size or 0.0
    return f"{size / GIB:.1f} GiB" if size >= 0.1 * GIB else f"{size / 2**20:.1f} MiB"
