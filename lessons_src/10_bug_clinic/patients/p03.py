import torch
import torch.distributed as dist


def patient(rank, n):
    """Average the gradients of a data set that does not divide evenly."""
    samples = torch.arange(1.0, 2 * n)  # rank n - 1 gets one fewer
    mine = samples[rank::n]
    total = 0.0
    for x in mine:
        gradient = x.clone()
        dist.all_reduce(gradient)
        total += gradient.item()
    return {"total": total}
