import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler


def patient(rank, n):
    """Score ten samples; those below 3 are right."""
    sampler = DistributedSampler(range(10), n, rank, shuffle=False)
    mine = torch.tensor(list(sampler))
    right, count = (mine < 3).sum(), torch.tensor(len(mine))
    dist.all_reduce(right)
    dist.all_reduce(count)
    return {"accuracy": (right / count).item(), "samples": count.item()}
