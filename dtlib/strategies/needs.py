"""What a strategy needs of a machine, and what it may not leave changed."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import shutil
import warnings
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import torch

from dtlib.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from dtlib.config import RunConfig


def heeding(options: Collection[str], config: RunConfig, world_size: int) -> list[str]:
    """Return the strategies that heed all of these options and run the rest of the settings, too.

    One that this machine cannot run for want of a package or a device is among them: its own
    refusal says what is missing and has a remedy.
    """
    from dtlib import strategies

    found = []
    for name, kind in sorted(strategies.available().items()):
        if set(options) <= set(kind.options):
            with contextlib.suppress(BadInput):
                with contextlib.suppress(Unavailable):
                    kind.check(dataclasses.replace(config, strategy=name), world_size)
                found.append(name)
    return found


def with_all_that_cpu_needs(sentence: str, config: RunConfig) -> str:
    """Return a sentence that proposes the CPU with what has to go as well, or is refused next."""
    more = " --precision fp32" if config.precision == "tf32" else ""
    gpus = [key for key in config.chosen() if key.startswith("nvtx")]
    more += f" without {' and '.join(gpus)}" if gpus else ""
    return sentence.replace("--device cpu", f"--device cpu{more}")


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


def refuse_channels_last(config: RunConfig, options: Collection[str]) -> None:
    """Refuse that layout for what shards, which takes parameters without gaps, row by row, alone.

    DeepSpeed views them as bytes (`engine._broadcast_model`); torch's FSDP says it of itself.
    """
    if config.channels_last:
        own = set(options) & set(config.chosen())  # which ddp would not heed
        raise BadInput(
            f"channels_last does not go with strategy {config.strategy}, which takes contiguous"
            f" parameters only; leave it out{'' if own else ', or use ddp'}."
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
