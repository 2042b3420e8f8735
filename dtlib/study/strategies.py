"""`dtlib study strategies`: the same model under every strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dtlib import strategies
from dtlib.config import RunConfig
from dtlib.config.mesh import written
from dtlib.errors import refuse_unknown
from dtlib.sim import states
from dtlib.study.family import Planned

KIND = "strategies"
# A strategy, and its axis beside data on a mesh.
SECOND = {"fsdp": "tensor", "tensor": "tensor", "pipeline": "pipeline"}
REFUSED = ("context",)  # it runs nowhere, so a study with it would never be complete
STEPS = 10
"""The ledger watches step 3, so seven steps are timed."""


def names(wanted: Sequence[str] = ()) -> list[str]:
    """Return a study's strategies without aliases, from sharding nothing to sharding everything.

    Strategies for which `sim` has no formula come last. One that runs nowhere is only among them if
    it is wanted.

    Raises `BadInput` for a strategy that does not exist.
    """
    kinds = strategies.available()
    for name in wanted:
        refuse_unknown("strategy", name, sorted(kinds))
    known = [name for name in states.DIVIDED if name in kinds]
    everything = [*known, *sorted(kinds.keys() - set(known) - set(REFUSED))]
    return [name for name in (wanted or everything) if name not in states.ALIASES]


def plans(
    settings: Mapping[str, Any], ranks: Sequence[int], wanted: Sequence[str] = ()
) -> Iterator[Planned]:
    """Yield the runs of a study; `single` has only one rank.

    Parameters
    ----------
    settings
        Those of `RunConfig` that all runs share.
    ranks
        Numbers of ranks.
    wanted
        Names of strategies (default: all).
    """
    for name in names(wanted):
        for number in [1] if name == "single" else ranks:
            for mesh in meshes(name, number):
                own = {"strategy": name, "ranks": number, "ledger": True, "mesh": mesh}
                config = RunConfig.from_mapping({"steps": STEPS, **settings, **own})
                yield Planned(name_of(name, number, mesh), config)


def meshes(strategy: str, ranks: int) -> list[str | None]:
    """Return the meshes on which a study runs a strategy: none, and one of two axes if it can."""
    own = SECOND.get(strategy)
    if own is None or ranks < 4 or ranks % 2:
        return [None]
    return [None, written(f"data={ranks // 2},{own}=2")]  # as a run's records spell it


def name_of(strategy: str, ranks: int, mesh: str | None) -> str:
    """Return a run's name, and its folder's: `fsdp-4`, or `fsdp-4-data=2-tensor=2`."""
    return "-".join([strategy, str(ranks), *(mesh or "").split(",")]).rstrip("-")
