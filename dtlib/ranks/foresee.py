"""Before the ranks have met: predict which type of device they will use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from dtlib.ranks import allocation, devices, dist
from dtlib.ranks.environment import environment_world


def foresee(
    world_size: int,
    device: str = "auto",
    env: Mapping[str, str] = os.environ,
    cpu: str = devices.CPU,
) -> tuple[str, str]:
    """Return the device type and the backend that ranks will have, by `choose_backend`.

    This depends on how many ranks share a host and on how many GPUs it has:

    | where | ranks on a host | its GPUs |
    | --- | --- | --- |
    | on a rank that torchrun or srun started | 1, if it sees a GPU | those that it sees |
    | in a Slurm allocation that the ranks will spread over | those of a node | as Slurm says |
    | anywhere else | all | those that torch finds |

    A rank that sees fewer GPUs than its host has ranks may be bound to a GPU of its own. Only when
    the ranks have met can `gpus.place` know this, and decide. `cpu` is what a refusal proposes.

    Raises
    ------
    BadInput, Unavailable
        As `choose_backend`.
    """
    if dist.in_world():
        world = dist.world()
        return world.device.type, world.backend or "gloo"
    here, local = devices.available_here(), world_size
    there = environment_world(env)
    nodes = None if there else allocation.spread(world_size, env)
    if there:
        local = 1 if here.cuda_devices else there.local_world_size
    elif nodes:
        local = nodes.most
        here = replace(here, cuda_devices=allocation.gpus_per_node(env) or here.cuda_devices)
    return devices.choose_backend(
        world_size, device, local_world_size=local, availability=here, cpu=cpu
    )
