import torch
import torch.distributed as dist


def patient(rank, n, targets):
    """Minimise the mean of (w - target)² over the targets of all ranks."""
    w, losses = torch.zeros(1), []
    for _ in range(6):
        losses.append((w - targets).square().mean().item())
        gradient = 2 * (w - targets[rank])
        dist.all_reduce(gradient)
        w -= 0.3 * gradient
    return {"loss": losses}
