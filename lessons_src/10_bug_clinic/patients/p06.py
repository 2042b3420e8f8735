import tempfile
from pathlib import Path

import torch
import torch.distributed as dist


def save(folder, step):
    """Write under a temporary name, then rename it."""
    unfinished = folder / f"step_{step}.tmp"
    unfinished.mkdir()
    torch.save({"step": step}, unfinished / "model.pt")
    unfinished.rename(folder / f"step_{step}")


def patient(rank, n, step):
    """Keep a checkpoint of this step in a folder that all ranks share."""
    place = [tempfile.mkdtemp()]
    dist.broadcast_object_list(place, src=0)
    save(Path(place[0]), step)
    dist.barrier()
    return {"checkpoints": [one.parent.name for one in Path(place[0]).glob("*/*.pt")]}
