"""One tensor that four ranks share, saved whole and sharded, at once and in the background."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def _weights(rows: int) -> Any:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return distribute_tensor(torch.arange(rows * 256.0).view(rows, 256), mesh, [Shard(0)])


def save_both(folder: Path, rows: int) -> dict[str, float]:
    """Save whole from rank 0, then sharded from all ranks; return this rank's bytes and seconds."""
    weights = _weights(rows)
    dist.barrier()
    begin = time.perf_counter()
    whole = weights.full_tensor()  # an all-gather: every rank now holds all of it
    if dist.get_rank() == 0:
        torch.save({"weights": whole}, folder / "whole.pt")
    dist.barrier()
    middle = time.perf_counter()
    dcp.save({"weights": weights}, checkpoint_id=folder / "sharded")
    dist.barrier()
    return {
        "shard": weights.to_local().nbytes,
        "gathered": whole.nbytes,
        "whole_s": middle - begin,
        "sharded_s": time.perf_counter() - middle,
    }


def load_sharded(folder: Path, rows: int) -> bool:
    """Load the shards into zeros, and tell whether this rank's part is what was saved."""
    weights = _weights(rows)
    loaded: Any = torch.zeros_like(weights)
    dcp.load({"weights": loaded}, checkpoint_id=folder / "sharded")
    return torch.equal(loaded.to_local(), weights.to_local())


def save_in_the_background(folder: Path, rows: int) -> dict[str, float]:
    """Save at once and then asynchronously; return how long the loop stands still for each."""
    weights = _weights(rows)
    dist.barrier()
    begin = time.perf_counter()
    dcp.save({"weights": weights}, checkpoint_id=folder / "at-once")
    stands = time.perf_counter() - begin
    dist.barrier()
    begin = time.perf_counter()
    response = dcp.async_save({"weights": weights}, checkpoint_id=folder / "async")
    returned = time.perf_counter() - begin
    response.result()  # type: ignore[union-attr]
    return {"at_once": stands, "returned": returned, "done": time.perf_counter() - begin}
