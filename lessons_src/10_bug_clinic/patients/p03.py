import torch
import torch.distributed as dist


def patient(rank, n, samples):
    """Add up the gradients of a data set that does not divide evenly."""
    mine = samples[rank::n]  # rank n - 1 gets one fewer
    total = 0.0
    for x in mine:
        gradient = torch.clone(x)
        dist.all_reduce(gradient)
        total += gradient.item()
    return {"total": total}
