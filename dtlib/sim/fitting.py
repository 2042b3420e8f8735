"""Find what fits if a run does not: smaller micro-batches, another strategy, or both.

The experiment stays the same: model, global batch and window. The cheapest change comes first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dtlib.sim.estimate import Setup, estimate

SPARE = 0.1
"""Share of a GPU's memory for CUDA, its libraries and fragmentation, which `estimate` omits."""

LADDER = ("zero1", "zero2", "zero3", "offload", "infinity")
"""From the strategy that sends no more than data parallel to the one that waits for a disk."""


class Way(NamedTuple):
    """A change that fits: its flags for `dtlib train`, its setup, and its peak in bytes."""

    flags: str
    setup: Setup
    peak: int


def peak(setup: Setup) -> int:
    """Bytes that a rank's device holds at most."""
    return estimate(setup).peak()[1]


def ways(setup: Setup, memory: float, spare: float = SPARE) -> list[Way]:
    """Return up to three changes that make a rank fit, single ones where one is enough.

    Parameters
    ----------
    setup
        The run that does not fit; its micro-batch, accumulation and ranks are the global batch.
    memory
        Bytes of the device.
    spare
        Share of them to keep free.

    Returns
    -------
    list of Way
        The largest micro-batch that fits; the first strategy that does; if neither alone is enough,
        the first strategy with a micro-batch of 1; activation checkpointing.
    """
    limit = memory * (1 - spare)
    families = [_smaller(setup), _sharded(setup)]
    found = [way for way in (_first(family, limit) for family in families) if way]
    if not found:
        smallest = _micro(setup, 1)
        cut = f" --micro-batch 1 --accumulation {smallest.accumulation}"
        both = _first(_sharded(smallest, cut), limit)
        found = [both] if both else []
    if setup.is_text and setup.checkpointing == "none":
        changed = dataclasses.replace(setup, checkpointing="full")
        again = _first([("--activation-checkpointing full", changed)], limit)
        found += [again] if again else []
    return found


def largest(setup: Setup, limit: float) -> Way:
    """Return the largest micro-batch of the same global batch that fits, otherwise that of 1."""
    found = _first([("", setup), *_smaller(setup)], limit)
    return found or Way("", one := _micro(setup, 1), peak(one))


def _first(family: Iterable[tuple[str, Setup]], limit: float) -> Way | None:
    for flags, changed in family:
        size = peak(changed)
        if size <= limit:
            return Way(flags, changed, size)
    return None


def _smaller(setup: Setup) -> Iterator[tuple[str, Setup]]:
    """Yield the same global batch in smaller and smaller micro-batches."""
    for micro in range(setup.micro_batch - 1, 0, -1):
        if setup.micro_batch * setup.accumulation % micro == 0:
            changed = _micro(setup, micro)
            yield f"--micro-batch {micro} --accumulation {changed.accumulation}", changed


def _micro(setup: Setup, micro: int) -> Setup:
    total = setup.micro_batch * setup.accumulation
    return dataclasses.replace(setup, micro_batch=micro, accumulation=total // micro)


def _sharded(setup: Setup, more: str = "") -> Iterator[tuple[str, Setup]]:
    """Yield the strategies that hold less than this one; on one rank only those that offload.

    `more` are the flags of earlier changes.
    """
    if setup.tensor > 1:  # without that axis, the ranks would share out the batch in another way
        return
    ladder = LADDER if setup.ranks > 1 else LADDER[-2:]
    begin = ladder.index(setup.strategy) + 1 if setup.strategy in ladder else 0
    for name in ladder[begin:]:
        plain: dict[str, Any] = {"zero_stage": None, "shard_ranks": None, "cpu_offload": False}
        plain["mesh"] = None
        yield f"--strategy {name}{more}", dataclasses.replace(setup, strategy=name, **plain)
