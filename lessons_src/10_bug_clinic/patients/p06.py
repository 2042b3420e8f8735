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


def patient(rank, n):
    """Keep a checkpoint of step 3 in a folder that all ranks share."""
    place = [tempfile.mkdtemp()]
    dist.broadcast_object_list(place, src=0)
    save(Path(place[0]), 3)
    dist.barrier()
    return {"checkpoints": float(len(list(Path(place[0]).iterdir())))}
