"""The files of ZeRO-Infinity: where they are, whether they fit, and their removal.

Every step writes the whole optimizer state, so long runs wear out a disk that is not made for it.

Each rank has its own folder, named after its host and process, in the folder that the run names. A
rank removes its folder at the end. If the rank is killed, the process that started it removes the
folder, or the next run that uses the same place.
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
from dtlib.sim import shapes
from dtlib.strategies import operators as ops

if TYPE_CHECKING:
    from dtlib.config import RunConfig

PREFIX = "dtlib-infinity"
# fp32: the weights, and in the optimizer's files their copy, two moments and the gradient
BYTES_A_PARAMETER = 4 + 4 + 8 + 4
GIB = 2**30
SMALLEST_BLOCK = 4096  # bytes of one read or write: a page


def folder(config: RunConfig) -> Path:
    """Return the folder that the run names, otherwise `nvme` in the run's own folder."""
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
    writable_folder(there, "--nvme")  # creates and removes a file: /proc only looks writable
    refuse_full(place, _at_least(config))


def _at_least(config: RunConfig) -> int:
    """Return a lower bound of the model's parameters: a GPT's without its vocabulary."""
    if config.task != "text" or config.model not in shapes.GPT:
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
    """Create this rank's folder, and remove those of ranks that have ended."""
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

    DeepSpeed 0.19 keeps tensors below 1 MiB in memory, which is all of a small model. And it reads
    gradients back to addresses that its direct I/O cannot use unless every earlier tensor is a
    multiple of 512 bytes: the read does nothing, without an error, and training goes wrong. Both
    thresholds are constants, not settings: here weights of a page or more go to files, and
    optimizer tensors only above the size of any gradient.

    Parameters
    ----------
    largest_share
        Elements of the largest tensor that a rank holds.
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
