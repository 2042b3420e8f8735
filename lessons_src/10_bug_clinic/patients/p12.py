import torch
import torch.distributed as dist
from torch import nn


def patient(rank, n):
    """Collect the running mean of a batch norm, then evaluate with it."""
    norm = nn.BatchNorm1d(1)
    for step in range(4):
        norm(torch.full((2, 1), 10.0 * rank + step))
    mean = norm.running_mean
    dist.barrier()  # all have finished training
    return {"checksum of the running mean": round(mean.item(), 4)}
