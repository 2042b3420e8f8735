"""The files of ZeRO-Infinity: where they lie, whether they fit, and that they go.

Every step writes the whole optimizer: long runs wear out a disk that is not made for it.

Each rank has a folder of its own, named for its host and process, in the folder that the run names.
A rank removes it at the end; what a killed one leaves, the process that started it removes, or
else the next run that uses the same place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from dtlib.config import RUNS
from dtlib.config.files import writable_folder
from dtlib.errors import Unavailable
from dtlib.models import gpt
from dtlib.strategies import operators as ops

if TYPE_CHECKING:
    from dtlib.config import RunConfig

PREFIX = "dtlib-infinity"
# fp32: the weights, and in the optimizer's files their copy, two moments and the gradient
BYTES_A_PARAMETER = 4 + 4 + 8 + 4
GIB = 2**30
SMALLEST_BLOCK = 4096  # bytes that are read or written at once: a page


def folder(config: RunConfig) -> Path:
    """Return the folder that the run names, else `nvme` in the run's own."""
    return Path(config.nvme or Path(config.out or RUNS) / "nvme").absolute()


def check(config: RunConfig) -> None:
    """Refuse what cannot run here, before any process starts.

    Raises `Unavailable` when an operator is not built or the disk is too small; `BadInput` when the
    disk cannot be written.
    """
    missing = ops.not_built(ops.NEEDED["infinity"])
    if missing:
        raise Unavailable(
            f"strategy infinity reads and writes its files with DeepSpeed's {', '.join(missing)},"
            f" not built here; `{ops.BUILD}` builds them once, in about ten minutes."
        )
    place = folder(config)
    there = next(parent for parent in (place, *place.parents) if parent.exists())
    writable_folder(there, "--nvme")  # a file is made in it and goes: /proc only looks writable
    refuse_full(place, _at_least(config))


def _at_least(config: RunConfig) -> int:
    """Return how many parameters the model has, or fewer: a GPT's without its vocabulary."""
    if config.task != "text" or config.model is None:
        return 0
    shape = gpt.shape(config.model)
    return 12 * shape.layers * shape.width**2 + shape.context * shape.width


def refuse_full(place: Path, parameters: int) -> None:
    """Refuse a disk on which a model's files do not fit.

    Raises `Unavailable` with the numbers.
    """
    there = next(parent for parent in (place, *place.parents) if parent.exists())
    need, free = parameters * BYTES_A_PARAMETER, shutil.disk_usage(there).free
    if need > free:
        raise Unavailable(
            f"infinity needs {need / GIB:.1f} GiB for {parameters:,} parameters at"
            f" {BYTES_A_PARAMETER} bytes, and {there} has {free / GIB:.1f} GiB free; choose another"
            " folder with --nvme."
        )


def make(config: RunConfig, parameters: int) -> Path:
    """Make this rank's folder, and clear those of ranks that are no more."""
    place = folder(config)
    place.mkdir(parents=True, exist_ok=True)
    clear(place)
    refuse_full(place, parameters)
    own = place / f"{PREFIX}-{socket.gethostname()}-{os.getpid()}"
    own.mkdir(exist_ok=True)
    return own


def into(json: dict[str, Any], own: Path) -> dict[str, Any]:
    """Return DeepSpeed's JSON with this rank's folder in it."""
    zero = dict(json["zero_optimization"])
    for key in ("offload_optimizer", "offload_param"):
        zero[key] = {**zero[key], "nvme_path": str(own)}
    return {**json, "zero_optimization": zero}


def set_thresholds(largest_share: int) -> None:
    """Let small tensors go to files, and keep gradients out of them.

    DeepSpeed 0.19 leaves in memory what is below 1 MiB, which is all of a small model. And it reads
    gradients back into places that its direct I/O cannot reach unless every tensor before is a
    multiple of 512 bytes: the read does nothing, without an error, and training goes wrong. Both
    thresholds are constants, not settings: weights go from a page on, and optimizer tensors from a
    size on that no gradient has.

    Parameters
    ----------
    largest_share
        Elements that a rank holds of the largest tensor.
    """
    from deepspeed.runtime.swap_tensor import optimizer_utils, partitioned_param_swapper

    partitioned_param_swapper.MIN_AIO_BYTES = SMALLEST_BLOCK
    optimizer_utils.MIN_AIO_BYTES = 4 * (largest_share + 1)


def clear(place: Path) -> None:
    """Remove the folders of ranks that have ended."""
    for path in place.glob(f"{PREFIX}-{socket.gethostname()}-*"):
        if not psutil.pid_exists(int(path.name.rpartition("-")[2])):
            shutil.rmtree(path, ignore_errors=True)


def leave(place: Path, config: RunConfig) -> None:
    """Remove `nvme` from the run's folder, once it is empty; a folder of the user's own stays."""
    if config.nvme is None:
        with contextlib.suppress(OSError):
            place.rmdir()
