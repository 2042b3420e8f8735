import torch
import torch.distributed as dist


def patient(rank, n):
    """Sum the gradient of three steps, then share the best loss."""
    gradient, best = torch.ones(4), torch.tensor([3.0 + rank])
    for _ in range(3):
        dist.all_reduce(gradient)
        gradient /= n
    if rank == n - 1:
        dist.broadcast(best, src=n - 1)
    else:
        dist.all_reduce(best, dist.ReduceOp.MIN)
    return {"best": best.item(), "gradient": gradient.sum().item()}
