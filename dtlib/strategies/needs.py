"""What a strategy needs from a machine, and what it must restore in the process."""

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

from dtlib.config.belonging import listed, no_effect, unread, without
from dtlib.config.mesh import Mesh
from dtlib.errors import BadInput, Unavailable
from dtlib.ranks.devices import CPU

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.strategies.base import Strategy


# Settings that some strategies read and others would ignore; each lists its own in `options`.
OPTIONS = (
    "bucket_cap_mb", "compress_gradients", "static_graph", "zero_stage", "deepspeed", "nvme",
    "shard_ranks", "cpu_offload", "pipeline_schedule",
)  # fmt: skip


def refuse_unread(kind: type[Strategy], config: RunConfig, world_size: int) -> None:
    """Refuse an option that a strategy would ignore, and a mesh axis that it does not have."""
    chosen = [key for key in OPTIONS if key in config.chosen()]
    for key in chosen:
        if key not in kind.options:
            raise no_effect(key, vars(config), "strategy", heeding(chosen, config, world_size))
    if config.mesh is not None:
        refuse_other_axes(kind.axes, config)


def heeding(options: Collection[str], config: RunConfig, world_size: int) -> list[str]:
    """Return the strategies that read all of these options and can run the other settings too.

    A strategy that needs a package or a device that is missing here is included, because its own
    error says what is missing and how to get it.
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


def cpu_instead(config: RunConfig) -> str:
    """Return the words that propose the CPU for this run, with all settings that must change."""
    exact = " --precision fp32" if config.precision == "tf32" else ""
    return f"{CPU}{exact}{without(vars(config), config.chosen(), device='cpu')}"


def bf16_instead(config: RunConfig) -> str:
    """Return the words that propose bf16 for a run in fp16."""
    return f"precision bf16{without(vars(config), config.chosen(), precision='bf16')}"


def instead(name: str, config: RunConfig) -> str:
    """Return the words that propose another strategy, without the options that it would refuse."""
    from dtlib import strategies

    heeded = strategies.find(name).options
    return name + listed(key for key in config.chosen() if key in OPTIONS and key not in heeded)


def refuse_other_axes(axes: Collection[str], config: RunConfig) -> None:
    """Refuse a mesh with an axis that the strategy does not have; the message has all numbers."""
    from dtlib import strategies

    for axis, size in Mesh.of(config.mesh or {}).sizes.items():
        if size > 1 and axis not in axes:
            kinds = sorted(strategies.available().items())
            others = [name for name, kind in kinds if axis in kind.axes]
            raise BadInput(
                f"strategy {config.strategy} has no axis {axis}, which is {size} in the mesh"
                f" {config.mesh}; its axes are {' and '.join(axes)}, and {axis} belongs to"
                f" {' and '.join(others)}."
            )


def need_compiler(config: RunConfig) -> None:
    """Refuse torch.compile if its generated CPU kernels cannot be built here.

    Raises `Unavailable` when this machine has no C++ compiler.
    """
    if not any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++")):
        raise Unavailable(
            "compile needs a C++ compiler; install g++ or clang, or drop"
            f" {compile_settings(config)}."
        )


def compile_settings(config: RunConfig) -> str:
    """Return the settings that a run without torch.compile has to leave out, as a sentence does."""
    return " and ".join(["compile", *unread(vars(config), config.chosen(), compile=False)])


def need_package(config: RunConfig, package: str, install: str) -> None:
    """Refuse a strategy whose package is missing, before any process starts.

    Raises `Unavailable` with the command that installs it.
    """
    if importlib.util.find_spec(package) is None:
        raise Unavailable(
            f"strategy {config.strategy} needs {package}, which is not installed here; run `pip"
            f" install {install}`, or use strategy {instead('ddp', config)}."
        )


def refuse_mps(config: RunConfig) -> None:
    """Refuse Apple's GPU for strategies that communicate, because it has no backend."""
    if config.device == "mps":
        raise BadInput(f"strategy {config.strategy} does not run on mps; use device cpu.")


def refuse_channels_last(config: RunConfig) -> None:
    """Refuse that layout for strategies that shard, which take only contiguous parameters.

    DeepSpeed views them as bytes (`engine._broadcast_model`); torch's FSDP documents it.
    """
    if config.channels_last:
        raise BadInput(
            f"channels_last does not go with strategy {config.strategy}, which takes only"
            f" contiguous parameters; leave it out, or use {instead('ddp', config)}."
        )


@contextlib.contextmanager
def unchanged_process() -> Iterator[None]:
    """Undo what a framework changes for the whole process when it is loaded and set up.

    It restores variables, the number of threads, and how warnings are filtered and shown, because
    the next run in this process, or the rest of a user's script, relies on them.
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
