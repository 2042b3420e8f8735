"""Where a run was measured."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.ranks.processes import run

if TYPE_CHECKING:
    from dtlib.ranks.dist import World


def origin(world: World) -> dict[str, Any]:
    """Return where a run was measured: commit, versions, host, device, Slurm job."""
    import torch

    import dtlib

    gpu = world.device.type == "cuda"
    return {
        "nodes": -(-world.world_size // world.local_world_size),  # the last may run fewer ranks
        "gpus_per_node": world.local_world_size if gpu else 0,
        "world_size": world.world_size,
        "commit": commit(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "dtlib": dtlib.__version__,
        },
        "host": platform.node(),
        "device": torch.cuda.get_device_name(world.device) if gpu else world.device.type,
        "job_id": os.environ.get("SLURM_JOB_ID"),
        "restart_count": int(os.environ.get("SLURM_RESTART_COUNT", 0)),
    }


def commit(package: Path = Path(__file__).parents[2]) -> str | None:
    """Return the commit of the checkout that contains `package` ("-dirty" if changed), or None."""
    git = ["git", "-C", str(package)]
    # A package installed into a virtual environment may lie inside somebody else's checkout.
    tracked = run([*git, "ls-files", "--error-unmatch", "__init__.py"], 10)
    if tracked.code != 0:
        return None
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = run(git + describe, 10, apart=True)
    return done.output.strip() or None if done.code == 0 else None
