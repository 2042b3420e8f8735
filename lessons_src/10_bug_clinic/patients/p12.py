import torch
import torch.distributed as dist


def patient(rank, n, batches):
    """Collect the running mean of a batch norm, then evaluate with it."""
    norm = torch.nn.BatchNorm1d(1)
    for x in batches:
        norm(x)
    mean = norm.running_mean
    dist.barrier()  # all have finished training
    return {"running mean": mean}
