"""What a strategy needs of a machine, and what it may not leave changed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from dtlib.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from dtlib.config import RunConfig


def need_compiler() -> None:
    """Refuse torch.compile where its generated CPU kernels could not be built.

    Raises `Unavailable` when this machine has no C++ compiler.
    """
    if not any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++")):
        raise Unavailable("compile needs a C++ compiler; install g++ or clang, or drop compile.")


def need_package(config: RunConfig, package: str, install: str) -> None:
    """Refuse a strategy whose package is missing, before any process starts.

    Raises `Unavailable` with the line that installs it.
    """
    if importlib.util.find_spec(package) is None:
        raise Unavailable(
            f"strategy {config.strategy} needs {package}, which is not installed here; run `pip"
            f" install {install}`, or use strategy ddp."
        )


def refuse_mps(config: RunConfig) -> None:
    """Refuse Apple's GPU for what communicates, since it has no backend."""
    if config.device == "mps":
        raise BadInput(f"strategy {config.strategy} does not run on mps; use device cpu.")


def refuse_channels_last(config: RunConfig) -> None:
    """Refuse that layout for what shards, which takes parameters without gaps, row by row, alone.

    DeepSpeed views them as bytes (`engine._broadcast_model`); torch's FSDP says it of itself.
    """
    if config.channels_last:
        raise BadInput(
            f"channels_last does not go with strategy {config.strategy}, which takes contiguous"
            " parameters only; leave it out, or use ddp."
        )


@contextlib.contextmanager
def unchanged_process() -> Iterator[None]:
    """Take back what a framework changes for the whole process as it is loaded and made.

    Variables, the number of threads, and how warnings are filtered and shown: the next run in this
    process, or the rest of a user's script, counts on them.
    """
    variables, threads = dict(os.environ), torch.get_num_threads()
    look = warnings.formatwarning
    try:
        with warnings.catch_warnings():
            yield
    finally:
        warnings.formatwarning = look
        torch.set_num_threads(threads)
        os.environ.clear()
        os.environ.update(variables)
