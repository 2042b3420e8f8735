import torch
import torch.distributed as dist


def patient(rank, n, loss):
    """Average the gradient in three steps, then share the best loss of all ranks."""
    gradient, best = torch.full((4,), loss), torch.tensor([loss])
    for _ in range(3):
        dist.all_reduce(gradient)
        gradient /= n
    if rank == n - 1:
        dist.broadcast(best, src=n - 1)
    else:
        dist.all_reduce(best, dist.ReduceOp.MIN)
    return {"best": best.item(), "gradient": gradient.sum().item()}
