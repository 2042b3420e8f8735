"""Device and backend of a world: the one table that decides them, and what this machine has."""

from __future__ import annotations

from dataclasses import dataclass

from dtlib.config import CHOICES
from dtlib.errors import BadInput, Unavailable, counted, refuse_unknown

DEVICES = CHOICES["device"]
CPU = "--device cpu"


@dataclass(frozen=True)
class Availability:
    """What this machine and this build of torch can do; tests pass their own."""

    cuda_devices: int = 0
    mps: bool = False
    nccl: bool = False


def available_here() -> Availability:
    """Ask torch, without initialising CUDA."""
    import torch
    import torch.distributed as dist

    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    nccl = dist.is_available() and dist.is_nccl_available()
    return Availability(cuda, torch.backends.mps.is_available(), nccl)


def choose_backend(
    world_size: int,
    device: str = "auto",
    *,
    local_world_size: int | None = None,
    availability: Availability | None = None,
    cpu: str = CPU,
) -> tuple[str, str]:
    """Choose the device type and the backend of a world, by the project's one table.

    | asked for | here | device, backend |
    | --- | --- | --- |
    | auto | a GPU for every local rank | cuda, nccl (gloo where the build has no NCCL) |
    | auto | anything else, Apple GPUs included | cpu, gloo |
    | cpu | | cpu, gloo |
    | cuda | a GPU for every local rank | cuda, nccl (gloo where the build has no NCCL) |
    | mps | one rank | mps, gloo |

    Apple's GPU is used only when asked for, since compared runs use one device type.

    Parameters
    ----------
    world_size, local_world_size
        Ranks in all and on this host (default: all of them).
    device
        `"auto"`, `"cpu"`, `"cuda"` or `"mps"`.
    availability
        The available devices; default: what torch finds here.
    cpu
        What a refusal proposes in place of a device that is not available.

    Raises
    ------
    BadInput
        For an unknown device, or several ranks on mps.
    Unavailable
        When this machine does not have the device, or has fewer GPUs than local ranks.
    """
    refuse_unknown("device", device, DEVICES)
    if device == "cpu":
        return "cpu", "gloo"
    here = availability or available_here()
    local = local_world_size or world_size
    if device == "mps":
        return _choose_mps(world_size, here)
    if here.cuda_devices >= local:
        return "cuda", "nccl" if here.nccl else "gloo"
    if device == "auto":
        return "cpu", "gloo"
    raise Unavailable(few_gpus(local, here.cuda_devices, cpu=cpu))


def few_gpus(ranks: int, gpus: int, host: str = "this host", cpu: str = CPU) -> str:
    """Explain that a host has too few GPUs for each of its ranks to have its own."""
    if not gpus:
        where = "here" if host == "this host" else f"on {host}"
        return f"No CUDA GPU is usable {where}; use {cpu}, or see `dtlib doctor`."
    if host == "this host":
        there, use = "there is 1" if gpus == 1 else f"there are {gpus}", f"use --ranks {gpus}"
    else:
        there, use = f"see {gpus} (CUDA_VISIBLE_DEVICES?)", f"start {gpus} on each node"
    needed = f"{counted(ranks, 'rank')} on {host} need{'s' * (ranks == 1)} {counted(ranks, 'GPU')}"
    return f"{needed}, but {there}; {use} or {cpu}."


def _choose_mps(world_size: int, here: Availability) -> tuple[str, str]:
    if not here.mps:
        raise Unavailable("No Apple GPU (mps) is usable here; use --device cpu.")
    if world_size > 1:
        raise BadInput(
            f"Apple's GPU (mps) runs one process, not {world_size} ranks; use --device cpu "
            "or --ranks 1."
        )
    return "mps", "gloo"
