import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler


def patient(rank, n, right):
    """Score a model; `right` has a 1 for each sample that it gets right."""
    sampler = DistributedSampler(right, n, rank, shuffle=False)
    mine = torch.tensor(list(sampler))
    hits, count = right[mine].sum(), torch.tensor(len(mine))
    dist.all_reduce(hits)
    dist.all_reduce(count)
    return {"accuracy": (hits / count).item(), "samples": count.item()}
