"""The process group: which ranks exist, which of them this process is, and what they share.

Everything also works in a world of one, without a process group. torch is imported where it is
used, so that the launcher can read the tables here in a process that never needs torch.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from dtlib.errors import counted
from dtlib.ranks import gpus, timeouts
from dtlib.ranks.devices import Availability, available_here, choose_backend
from dtlib.ranks.environment import EnvWorld, environment_world, meeting_place, start_limit
from dtlib.ranks.interfaces import GLOO, loopback_name, refuse_interfaces

if TYPE_CHECKING:
    import torch

__all__ = [
    "Availability", "EnvWorld", "World", "available_here", "barrier", "broadcast_object",
    "choose_backend", "devices_in_words", "environment_world", "gather_objects", "heeds_stop",
    "in_world", "install_stop_handlers", "is_main", "join", "leave", "reduce_scatter_sum",
    "request_stop", "stop_requested", "sum_over_ranks", "tell_devices", "told_by_all", "world",
]  # fmt: skip

T = TypeVar("T")


class _Stop:
    """Plain values, not events: a signal may come while the handler of an earlier one still runs,
    and would then wait for ever for the lock of the event that it interrupted."""

    requested = False
    asked_about = False


_joined_device: torch.device | None = None
_why = ""  # why this device, if it is unexpected
_turns = itertools.count()  # of `told_by_all`: all ranks are at the same one
_told = False  # whether this world has reported its device


@dataclass(frozen=True)
class World:
    """The ranks of a run and this process's place among them.

    `rank` counts over all hosts, `local_rank` on this host; `backend` is `"gloo"`, `"nccl"`, or
    `None` in a world of one without a process group.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    device: torch.device
    backend: str | None


def in_world() -> bool:
    """Return whether this process is in a process group."""
    return _joined() is not None


def _joined() -> Any:
    """Return torch.distributed if this process is in a process group, else `None`."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist and dist.is_available() and dist.is_initialized() else None


def world() -> World:
    """Return the world of the process group that this process is in, else a world of one."""
    import torch

    dist = _joined()
    if dist is None:
        return World(0, 0, 1, 1, torch.device("cpu"), None)
    rank, size, backend = dist.get_rank(), dist.get_world_size(), dist.get_backend()
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    device = _joined_device or _foreign_device(local_rank, backend)
    return World(rank, local_rank, size, local_size, device, backend)


def _foreign_device(local_rank: int, backend: str) -> torch.device:
    """Guess the device of a rank whose process group is not ours: NCCL needs one GPU per rank."""
    import torch

    if "nccl" not in backend:
        return torch.device("cpu")
    # with fewer GPUs than ranks, it is bound to one, or its own code has chosen one
    alone = local_rank >= torch.cuda.device_count()
    return torch.device("cuda", torch.cuda.current_device() if alone else local_rank)


def join(
    env_world: EnvWorld, device: str = "auto", timeout: float = timeouts.RUN, *, store: Any = None
) -> World:
    """Enter the process group that `env_world` describes, and return the world.

    Parameters
    ----------
    env_world
        From `environment_world()`, or from the launcher.
    device
        As for `choose_backend`.
    timeout
        Seconds that a collective waits for the other ranks.
    store
        The store to meet at; default: the one at `MASTER_ADDR:MASTER_PORT`.

    Raises
    ------
    BadInput, Unavailable
        As `choose_backend`, and for network interfaces through which the ranks could not meet.
    DtlibError
        When not all ranks arrive.
    """
    import torch
    import torch.distributed as dist

    global _joined_device, _why, _told
    if in_world():
        return world()
    os.environ.update(env_world.variables())
    if store is None:  # until all have arrived, a rank may still be loading torch
        store = meeting_place(env_world, max(timeout, start_limit()))
    placed = gpus.place(env_world, device, store)
    nodes = -(-env_world.world_size // env_world.local_world_size)
    refuse_interfaces(os.environ, placed.backend, nodes)
    if nodes == 1:
        os.environ.setdefault(GLOO, loopback_name())
    own = torch.device(placed.device)
    if placed.kind == "cuda":
        torch.cuda.set_device(own)
    _joined_device, _why, _told = own, placed.note, False
    dist.init_process_group(
        placed.backend,
        store=store,
        rank=env_world.rank,
        world_size=env_world.world_size,
        timeout=timedelta(seconds=timeout),
        device_id=own if placed.backend == "nccl" else None,  # NCCL then never has to guess it
    )
    atexit.register(leave)
    if env_world.source != "launch":
        tell_devices()
    return world()


def tell_devices(also: str = "") -> None:
    """Print once, on rank 0, the device that the ranks use, and why if it is unexpected.

    Unless there is something to print `also`, an expected device is not worth a line.
    """
    global _told
    if is_main() and not (_told and in_world()) and (_why or also):
        print("; ".join(filter(None, (devices_in_words(), also))), flush=True)
        _told = True


def devices_in_words() -> str:
    """Describe the device that the ranks use, and why if it is unexpected."""
    here, why = world(), _why
    backend = f" with {here.backend}" if here.backend else ""
    return f"{counted(here.world_size, 'rank')} on {here.device.type}{backend}" + (
        f": {why}" if why else ""
    )


def leave() -> None:
    """Leave the process group; nothing happens in a world of one."""
    global _joined_device
    _joined_device = None
    if dist := _joined():
        dist.destroy_process_group()


def is_main() -> bool:
    """Return whether this is rank 0, or a world of one."""
    dist = _joined()
    return dist is None or dist.get_rank() == 0


def barrier() -> None:
    """Wait until every rank is here."""
    if dist := _joined():
        dist.barrier()


def sum_over_ranks(tensor: torch.Tensor, speaks: bool = True) -> torch.Tensor:
    """Sum `tensor` over all ranks that `speak`, in place, and return the sum on every rank."""
    if not speaks:
        tensor.zero_()
    if dist := _joined():
        dist.all_reduce(tensor)
    return tensor


def reduce_scatter_sum(out: torch.Tensor, inp: torch.Tensor, group: Any = None) -> torch.Tensor:
    """Sum `inp` (N·n elements) over N ranks and leave this rank's n elements in `out`.

    The ranks are those of `group`, by default all.

    torch 2.14 renamed the call and warns about the old name, which is the only one up to 2.13.
    """
    dist = _joined()
    if dist is None:
        return out.copy_(inp.view_as(out))
    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    call(out, inp, group=group)
    return out


def broadcast_object(obj: T) -> T:
    """Return rank 0's `obj` on every rank."""
    dist = _joined()
    if dist is None:
        return obj
    box: list[Any] = [obj]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def gather_objects(obj: T) -> list[T]:
    """Return the `obj` of every rank, in rank order, on every rank."""
    dist = _joined()
    if dist is None:
        return [obj]
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, obj)
    return found


def told_by_all(said: str, seconds: float) -> list[str] | None:
    """Return what every rank says in this call, or None if not all do so in that time.

    Unlike a collective it may be called while other ranks wait in one: it asks the store.
    """
    number = next(_turns)
    dist = _joined()
    if dist is None:
        return [said]
    store = dist.distributed_c10d._get_default_store()
    names = [f"dtlib {number} {rank}" for rank in range(dist.get_world_size())]
    store.set(names[dist.get_rank()], said)
    try:
        store.wait(names, timedelta(seconds=seconds))
    except RuntimeError:
        return None
    return [store.get(name).decode() for name in names]


def request_stop() -> None:
    """Ask this rank to stop at the next step, as the stop signals do."""
    _Stop.requested = True


def stop_requested() -> bool:
    """Return whether this rank was asked to stop; all ranks must agree on a step before they do."""
    _Stop.asked_about = True
    return _Stop.requested


def heeds_stop() -> bool:
    """Return whether this process ever called `stop_requested`; otherwise it would never stop."""
    return _Stop.asked_about


def install_stop_handlers(*names: str, unheeded: bool = True) -> None:
    """Let signals set the stop flag of this process: SIGTERM and SIGUSR1 unless others are named.

    Only the main thread can install signal handlers; from another thread nothing is installed.

    Parameters
    ----------
    unheeded
        Whether a signal leaves a process alive that has never called `stop_requested`; if not, the
        signal ends it, as without a handler.
    """
    import signal

    def stop(number: int, _: object) -> None:
        if not unheeded and not heeds_stop():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        request_stop()

    if threading.current_thread() is not threading.main_thread():
        return
    for name in names or ("SIGTERM", "SIGUSR1"):
        signal.signal(getattr(signal, name), stop)
