"""Which GPU each rank takes, given what all ranks see: they tell one another when they meet.

A rank may see every GPU of its host, and then takes the one numbered by its local rank. Or it may
see only the GPU that Slurm or a wrapper script has bound it to, which is number 0 for every rank.
Counting does not tell these two cases apart, since two ranks on a laptop with one GPU also see one
each. The GPUs' own ids do: ranks that are bound see different ones.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtlib.errors import Unavailable, counted
from dtlib.ranks import devices
from dtlib.ranks.environment import EnvWorld


class Seen(NamedTuple):
    """What one rank sees: its host, its local rank, the ids of its GPUs, whether torch has NCCL."""

    host: str
    local_rank: int
    gpus: list[str]
    nccl: bool


@dataclass(frozen=True)
class Placed:
    """Where one rank computes.

    Attributes
    ----------
    device
        As torch names it: "cuda:3", "cpu" or "mps".
    backend
        Backend of the process group, the same on every rank.
    note
        Why it is neither the local rank's GPU nor the CPU of a host without GPUs; otherwise "".
    """

    device: str
    backend: str
    note: str = ""

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]


def place(env_world: EnvWorld, device: str, store: Any) -> Placed:
    """Decide with the other ranks of a world where this one computes.

    Parameters
    ----------
    env_world
        The world, and this rank's place in it.
    device
        As for `choose_backend`; "auto" and "cuda" ask the other ranks, and so wait for them.
    store
        Where the ranks meet.

    Raises
    ------
    BadInput, Unavailable
        As `choose_backend`; a missing GPU is refused on every rank, in the same words.
    """
    if device not in ("auto", "cuda"):
        return Placed(*devices.choose_backend(env_world.world_size, device))
    return placed(everyone(env_world, store), env_world.rank, device)


def everyone(env_world: EnvWorld, store: Any) -> list[Seen]:
    """Tell the other ranks what this one sees, and return what each of them sees, by rank."""
    here = devices.available_here()
    if env_world.source == "launch":  # one process started them all: they see the same
        ids = [str(number) for number in range(here.cuda_devices)]
    else:
        ids = visible_gpus(here.cuda_devices)
    mine = Seen(socket.gethostname(), env_world.local_rank, ids, here.nccl)
    names = [f"dtlib sees {rank}" for rank in range(env_world.world_size)]
    store.set(names[env_world.rank], json.dumps(mine))
    return [Seen(*json.loads(text)) for text in store.multi_get(names)]


def visible_gpus(count: int) -> list[str]:
    """Return the ids of the GPUs that this process sees, in torch's order; this loads CUDA."""
    import torch

    return [str(torch.cuda.get_device_properties(number).uuid) for number in range(count)]


def placed(seen: Sequence[Seen], rank: int, device: str) -> Placed:
    """Return the place of one rank, given what all ranks see; `device` is "auto" or "cuda".

    Either every rank has a GPU of its own, or all of them compute on the CPU.

    Raises
    ------
    Unavailable
        For "cuda", when a rank has no GPU of its own.
    """
    own = assign(seen)
    if None in own:
        first = seen[own.index(None)]
        there = [each for each in seen if each.host == first.host]
        host = "this host" if len(there) == len(seen) else first.host
        gpus = len({gpu for each in there for gpu in each.gpus})
        if device == "cuda":
            raise Unavailable(devices.few_gpus(len(there), gpus, host))
        note = f"{counted(len(there), 'rank')} on {host} have {counted(gpus, 'GPU')}"
        return Placed("cpu", "gloo", f"{note}, but each needs its own" if any_gpu(seen) else "")
    backend = "nccl" if all(each.nccl for each in seen) else "gloo"
    bound = any(number != each.local_rank for number, each in zip(own, seen, strict=True))
    note = "each rank has a GPU that the others on its host do not see" if bound else ""
    return Placed(f"cuda:{own[rank]}", backend, note)


def any_gpu(seen: Sequence[Seen]) -> bool:
    """Return whether any rank sees a GPU; otherwise the CPU needs no explanation."""
    return any(each.gpus for each in seen)


def assign(seen: Sequence[Seen]) -> list[int | None]:
    """Return for each rank the number of a GPU that no other rank takes, or `None`.

    A rank prefers the GPU numbered by its local rank, modulo how many it sees, and then the next
    ones. Ranks see the same GPUs or different ones; if these overlap in part, one may get none.
    """
    taken: set[str] = set()
    own: list[int | None] = []
    for each in seen:
        count = len(each.gpus)
        numbers = ((each.local_rank + step) % count for step in range(count))
        number = next((n for n in numbers if each.gpus[n] not in taken), None)
        own.append(number)
        if number is not None:
            taken.add(each.gpus[number])
    return own
